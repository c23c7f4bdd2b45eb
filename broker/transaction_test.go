package broker

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

const commitIt, rollBack = "8", "12"

const fenced = store.FlagFenced

// prepared is a message of the half topic.
type prepared struct{ half, phyOffset int64 }

// prepare sends a prepared message of the group p to queue 1 of T.
func prepare(t *testing.T, b *Broker, client *remoting.Client, body, properties string, more ...remoting.Field) prepared {
	t.Helper()
	born := strconv.FormatInt(b.o.now().UnixMilli(), 10)
	resp := sendV2(t, b, client, "T", []byte(body), "TRAN_MSG\x01true\x02UNIQ_KEY\x01"+body+"\x02PGROUP\x01p\x02"+properties, append([]remoting.Field{field("f", "4"), field("g", born)}, more...)...)
	require.Equal(t, remoting.Success, resp.Code, resp.Remark)
	half, err := strconv.ParseInt(resp.Ext.Get("queueOffset"), 10, 64)
	require.NoError(t, err)
	_, phyOffset, ok := message.ParseOffsetMsgID(resp.Ext.Get("msgId"))
	require.True(t, ok)
	require.Equal(t, body, resp.Ext.Get("transactionId"))
	stored(t, b, meta.HalfTopic, 0, half)
	return prepared{half, phyOffset}
}

// end ends a transaction; more replaces or adds fields.
func end(t *testing.T, b *Broker, client *remoting.Client, p prepared, decision string, more ...remoting.Field) *remoting.Command {
	t.Helper()
	ext := remoting.Ext{{Key: "producerGroup", Value: "p"}, {Key: "msgId", Value: "U"}, {Key: "commitOrRollback", Value: decision}, {Key: "fromTransactionCheck", Value: "false"}}
	ext.SetInt("tranStateTableOffset", p.half)
	ext.SetInt("commitLogOffset", p.phyOffset)
	for _, f := range more {
		ext.Set(f.Key, f.Value)
	}
	return call(t, b, client, remoting.EndTransaction, nil, ext...)
}

// openTransactions opens a broker whose checks the test makes itself.
func openTransactions(t *testing.T, change func(o *Options)) (*Broker, *remoting.Client, *testClock) {
	t.Helper()
	return openClocked(t, func(o *Options) {
		o.TransactionCheckInterval = time.Hour
		if change != nil {
			change(o)
		}
	})
}

// producer is a member of the group p that is asked about its messages.
func producer(t *testing.T, b *Broker) (client *remoting.Client, asked chan *remoting.Command) {
	t.Helper()
	asked = make(chan *remoting.Command, 100)
	o := remoting.DefaultClientOptions()
	o.Handler = remoting.Mux{remoting.CheckTransactionState: func(c *remoting.Conn, req *remoting.Command) {
		asked <- &remoting.Command{Flag: req.Flag, Ext: append(remoting.Ext{}, req.Ext...), Body: append([]byte{}, req.Body...)}
		c.Respond(req, &remoting.Command{})
	}}
	client, err := remoting.NewClient(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	require.Equal(t, remoting.Success, call(t, b, client, remoting.Heartbeat, beat("id", "g")).Code)
	return client, asked
}

// question is what a producer is asked about.
func question(t *testing.T, asked chan *remoting.Command) (p prepared, req *remoting.Command) {
	t.Helper()
	select {
	case req = <-asked:
	case <-time.After(30 * time.Second):
		require.FailNow(t, "the producer is not asked")
	}
	var err error
	p.half, err = strconv.ParseInt(req.Ext.Get("tranStateTableOffset"), 10, 64)
	require.NoError(t, err)
	p.phyOffset, err = strconv.ParseInt(req.Ext.Get("commitLogOffset"), 10, 64)
	require.NoError(t, err)
	return p, req
}

// checks returns how far checks have come in the half topic and the op topic.
func checks(b *Broker) [2]int64 {
	return [2]int64{b.offsets.Query(meta.TransactionGroup, meta.HalfTopic, 0), b.offsets.Query(meta.TransactionGroup, meta.OpHalfTopic, 0)}
}

// settleOps has all op records written, and waits until they can be read.
func settleOps(t *testing.T, b *Broker) {
	t.Helper()
	require.NoError(t, b.halves.writeOps())
	if n := b.store.NextOffset(meta.OpHalfTopic, 0); n > 0 {
		stored(t, b, meta.OpHalfTopic, 0, n-1)
	}
	if n := b.store.NextOffset(meta.HalfTopic, 0); n > 0 {
		stored(t, b, meta.HalfTopic, 0, n-1)
	}
}

func TestT17CommitAndRollback(t *testing.T) {
	b, client, _ := openTransactions(t, nil)
	one, two := prepare(t, b, client, "one", "TAGS\x01A\x02"), prepare(t, b, client, "two", "")
	require.Zero(t, maxOffset(t, b, "T", 1))
	require.Equal(t, remoting.Success, end(t, b, client, two, rollBack).Code)
	require.Equal(t, remoting.Success, end(t, b, client, one, commitIt).Code)
	r := stored(t, b, "T", 1, 0)
	require.Equal(t, "one", string(r.Body))
	require.Equal(t, message.TransactionCommit, r.Transaction())
	require.Equal(t, one.phyOffset, r.PreparedTransactionOffset)
	require.Equal(t, map[string]string{
		"TRAN_MSG": "true", "UNIQ_KEY": "one", "PGROUP": "p", "TAGS": "A", "__transactionId__": "one", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "c",
	}, propsOf(&r))

	require.Equal(t, remoting.Success, end(t, b, client, one, commitIt).Code, "said before: it counts once")
	require.Equal(t, remoting.Success, end(t, b, client, two, commitIt).Code, "too late")
	require.EqualValues(t, 1, b.store.NextOffset("T", 1))
	settleOps(t, b)
	op := stored(t, b, meta.OpHalfTopic, 0, 0)
	require.Equal(t, "1,0,", string(op.Body))
	require.Equal(t, "d", prop(&op, "TAGS"))

	require.NoError(t, b.halves.check(t.Context()))
	require.Equal(t, [2]int64{2, 1}, checks(b))
}

// An op record stays to be read as long as it names a message that checks have not come to.
func TestT17OpRecordsOfLaterMessagesStay(t *testing.T) {
	b, client, clock := openTransactions(t, nil)
	prepare(t, b, client, "open", "")
	require.Equal(t, remoting.Success, end(t, b, client, prepare(t, b, client, "done", ""), commitIt).Code)
	settleOps(t, b)
	require.NoError(t, b.halves.check(t.Context()))
	require.Equal(t, [2]int64{0, 0}, checks(b))
	b, _ = again(t, b)
	_, asked := producer(t, b)
	clock.advance(b, 10*time.Second)
	require.NoError(t, b.halves.check(t.Context()))
	_, req := question(t, asked)
	require.Equal(t, "open", req.Ext.Get("msgId"))
	require.Empty(t, asked)
	require.Equal(t, [2]int64{2, 1}, checks(b))
}

func TestT17DelayedTransactions(t *testing.T) {
	b, client, clock := openTransactions(t, nil)
	p := prepare(t, b, client, "later", "DELAY\x013\x02")
	require.Equal(t, remoting.Success, end(t, b, client, p, commitIt).Code)
	r := stored(t, b, meta.ScheduleTopic, 2, 0)
	require.Equal(t, "T", prop(&r, "REAL_TOPIC"))
	clock.advance(b, 10*time.Second)
	r = stored(t, b, "T", 1, 0)
	require.Equal(t, message.TransactionCommit, r.Transaction())
}

func TestT17RefusedEnds(t *testing.T) {
	b, client, clock := openTransactions(t, nil)
	p := prepare(t, b, client, "x", "")
	immune := prepare(t, b, client, "immune", "CHECK_IMMUNITY_TIME_IN_SECONDS\x0130\x02")
	require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("plain"), "PGROUP\x01p\x02", field("e", "0")).Code)
	plain := stored(t, b, "T", 0, 0)
	clock.advance(b, 31*time.Second)
	for _, c := range []struct {
		name string
		want int32
		got  *remoting.Command
	}{
		{"group", remoting.SystemError, end(t, b, client, p, commitIt, field("producerGroup", "other"))},
		{"offset in the half topic", remoting.SystemError, end(t, b, client, prepared{p.half + 1, p.phyOffset}, commitIt)},
		{"no message", remoting.SystemError, end(t, b, client, prepared{p.half, p.phyOffset + 1}, commitIt)},
		{"not prepared", remoting.SystemError, end(t, b, client, prepared{plain.QueueOffset, plain.PhyOffset}, commitIt)},
		{"a field is missing", remoting.SystemError, end(t, b, client, p, "")},
		{"no longer immune", remoting.IllegalOperation, end(t, b, client, immune, commitIt)},
		{"no longer immune, and asked", remoting.Success, end(t, b, client, immune, rollBack, field("fromTransactionCheck", "true"))},
	} {
		require.Equal(t, c.want, c.got.Code, "%s: %s", c.name, c.got.Remark)
	}
	require.Zero(t, b.store.NextOffset("T", 1))

	// One that does not know yet is not answered, and changes nothing.
	ext := remoting.Ext{{Key: "producerGroup", Value: "p"}, {Key: "commitOrRollback", Value: "0"}, {Key: "tranStateTableOffset", Value: "0"}, {Key: "commitLogOffset", Value: "0"}}
	answered := make(chan struct{})
	conn, err := client.Conn(t.Context(), b.Addr().String())
	require.NoError(t, err)
	conn.InvokeAsync(&remoting.Command{Code: remoting.EndTransaction, Ext: ext}, 30*time.Second, func(resp *remoting.Command, err error) {
		if err == nil {
			close(answered)
		}
	})
	require.Equal(t, remoting.Success, end(t, b, client, p, commitIt).Code, "behind it on the same connection")
	select {
	case <-answered:
		require.FailNow(t, "an answer nobody waits for")
	default:
	}
	stored(t, b, "T", 1, 0)
}

func TestT17ProducersAreAsked(t *testing.T) {
	b, client, clock := openTransactions(t, nil)
	p, asked := producer(t, b)
	first := prepare(t, b, client, "open", "TAGS\x01A\x02")
	require.NoError(t, b.halves.check(t.Context()))
	require.Equal(t, [2]int64{0, 0}, checks(b), "too young")

	clock.advance(b, 6*time.Second)
	require.NoError(t, b.halves.check(t.Context()))
	again, req := question(t, asked)
	require.NotZero(t, req.Flag&remoting.FlagOneWay)
	require.Equal(t, prepared{1, again.phyOffset}, again, "it was put into the half topic again")
	require.Equal(t, meta.HalfTopic, req.Ext.Get("topic"))
	require.Equal(t, "open", req.Ext.Get("msgId"))
	require.Equal(t, "open", req.Ext.Get("transactionId"))
	host, phyOffset, ok := message.ParseOffsetMsgID(req.Ext.Get("offsetMsgId"))
	require.True(t, ok)
	require.Equal(t, b.storeHost, host)
	require.Equal(t, again.phyOffset, phyOffset)
	var r message.Record
	require.NoError(t, r.Decode(req.Body, true))
	require.Equal(t, "T", string(r.Topic))
	require.EqualValues(t, 1, r.QueueID)
	require.Equal(t, "open", string(r.Body))
	require.Equal(t, again.phyOffset, r.PhyOffset)
	half := stored(t, b, meta.HalfTopic, 0, 1)
	require.Equal(t, "1", prop(&half, "TRANSACTION_CHECK_TIMES"))
	require.Equal(t, [2]int64{1, 0}, checks(b))

	// The producer answers with what it knew first, as one does that was slow: it is the same message.
	require.Equal(t, remoting.Success, end(t, b, p, first, commitIt).Code)
	require.Equal(t, remoting.Success, end(t, b, p, again, commitIt, field("fromTransactionCheck", "true")).Code)
	stored(t, b, "T", 1, 0)
	require.EqualValues(t, 1, b.store.NextOffset("T", 1), "once")
	settleOps(t, b)
	clock.advance(b, time.Minute)
	require.NoError(t, b.halves.check(t.Context()))
	require.Equal(t, [2]int64{2, 1}, checks(b))
	require.Empty(t, asked)
	b.halves.mu.Lock()
	defer b.halves.mu.Unlock()
	require.Empty(t, b.halves.mu.decided)
	require.Empty(t, b.halves.mu.moved)
	require.Empty(t, b.halves.mu.before)
}

func TestT17OpenForTooManyChecks(t *testing.T) {
	b, client, clock := openTransactions(t, nil)
	prepare(t, b, client, "open", "")
	clock.advance(b, 6*time.Second)
	for i := range 15 {
		require.NoError(t, b.halves.check(t.Context()))
		r := stored(t, b, meta.HalfTopic, 0, int64(i+1))
		require.Equal(t, strconv.Itoa(i+1), prop(&r, "TRANSACTION_CHECK_TIMES"))
	}
	require.NoError(t, b.halves.check(t.Context()))
	r := stored(t, b, meta.CheckMaxTimeTopic, 0, 0)
	require.Equal(t, "open", string(r.Body))
	require.Equal(t, "T", prop(&r, "REAL_TOPIC"))
	require.Equal(t, [2]int64{16, 0}, checks(b))
	require.EqualValues(t, 16, b.store.NextOffset(meta.HalfTopic, 0))

	// An operator has it checked again.
	resume := func(id string) int32 {
		return call(t, b, client, remoting.ResumeCheckHalfMessage, nil, field("topic", "T"), field("msgId", id)).Code
	}
	require.Equal(t, remoting.SystemError, resume("x"))
	half := stored(t, b, meta.HalfTopic, 0, 0)
	require.Equal(t, remoting.SystemError, resume(message.OffsetMsgID(half.StoreHost, half.PhyOffset)))
	require.Equal(t, remoting.Success, resume(message.OffsetMsgID(r.StoreHost, r.PhyOffset)))
	r = stored(t, b, meta.HalfTopic, 0, 16)
	require.Equal(t, "0", prop(&r, "TRANSACTION_CHECK_TIMES"))
	p, asked := producer(t, b)
	require.NoError(t, b.halves.check(t.Context()))
	q, _ := question(t, asked)
	require.Equal(t, remoting.Success, end(t, b, p, q, commitIt).Code)
	stored(t, b, "T", 1, 0)
}

func TestT17MessagesOlderThanTheLogAreGivenUp(t *testing.T) {
	b, client, clock := openTransactions(t, nil)
	prepare(t, b, client, "old", "")
	clock.advance(b, 73*time.Hour)
	require.NoError(t, b.halves.check(t.Context()))
	stored(t, b, meta.CheckMaxTimeTopic, 0, 0)
}

func TestT17ImmuneMessagesKeepNobodyWaiting(t *testing.T) {
	b, client, clock := openTransactions(t, nil)
	_, asked := producer(t, b)
	immune := prepare(t, b, client, "immune", "CHECK_IMMUNITY_TIME_IN_SECONDS\x01100\x02")
	prepare(t, b, client, "other", "")
	clock.advance(b, 50*time.Second)
	require.NoError(t, b.halves.check(t.Context()))
	_, req := question(t, asked)
	require.Equal(t, "other", req.Ext.Get("msgId"))
	r := stored(t, b, meta.HalfTopic, 0, 2)
	require.Equal(t, "immune", string(r.Body))
	require.Equal(t, "0", prop(&r, "TRAN_PREPARED_QUEUE_OFFSET"))
	require.Empty(t, prop(&r, "TRANSACTION_CHECK_TIMES"))
	require.Equal(t, remoting.Success, end(t, b, client, immune, commitIt).Code)
	stored(t, b, "T", 1, 0)
	settleOps(t, b)
	clock.advance(b, 100*time.Second)
	require.NoError(t, b.halves.check(t.Context()))
	_, req = question(t, asked)
	require.Equal(t, "other", req.Ext.Get("msgId"))
	require.Empty(t, asked, "the immune one is committed")
}

func TestT17AnotherProcessGoesOn(t *testing.T) {
	for _, kind := range storeTypes {
		t.Run(string(kind), func(t *testing.T) {
			b, client, clock := openTransactions(t, func(o *Options) { o.Store.StoreType = kind })
			var open []prepared
			for i := range 10 {
				p := prepare(t, b, client, fmt.Sprint(i), "")
				if i%2 == 0 {
					require.Equal(t, remoting.Success, end(t, b, client, p, commitIt).Code)
				} else {
					open = append(open, p)
				}
			}
			b, client = again(t, b)
			require.EqualValues(t, 1, b.store.NextOffset(meta.OpHalfTopic, 0), "written when the broker was closed")
			_, asked := producer(t, b)
			require.Equal(t, remoting.Success, end(t, b, client, open[0], rollBack).Code)
			clock.advance(b, 10*time.Second)
			require.NoError(t, b.halves.check(t.Context()))
			var about []string
			for range 4 {
				_, req := question(t, asked)
				about = append(about, req.Ext.Get("msgId"))
			}
			require.ElementsMatch(t, []string{"3", "5", "7", "9"}, about)
			require.Empty(t, asked)
			require.Equal(t, [2]int64{10, 1}, checks(b))

			b, _ = again(t, b)
			require.Equal(t, [2]int64{10, 1}, checks(b), "in consumerOffset.json")
			_, asked = producer(t, b)
			require.NoError(t, b.halves.check(t.Context()))
			for range 4 {
				question(t, asked)
			}
			require.EqualValues(t, 5, maxOffset(t, b, "T", 1))
		})
	}
}

// A commit that fails leaves the message undecided, and checks do not pass one that is being committed.
func TestT17CommitsThatFail(t *testing.T) {
	b, client, clock := openTransactions(t, nil)
	p := prepare(t, b, client, "x", "")
	require.NoError(t, b.store.Flags().Set(fenced, "test"))
	require.Equal(t, remoting.ServiceNotAvailable, end(t, b, client, p, commitIt).Code)
	clock.advance(b, 10*time.Second)
	require.Error(t, b.halves.check(t.Context()))
	require.NoError(t, b.store.Flags().Clear(fenced))
	require.Equal(t, [2]int64{0, 0}, checks(b))

	at, ok := b.halves.decide(p.half)
	require.True(t, ok)
	require.NoError(t, b.halves.check(t.Context()))
	require.Equal(t, [2]int64{0, 0}, checks(b))
	b.halves.withdraw(at)
	require.NoError(t, b.halves.check(t.Context()))
	require.Equal(t, [2]int64{1, 0}, checks(b))
}

func TestOpRecordsAreGathered(t *testing.T) {
	b, client, _ := openTransactions(t, func(o *Options) { o.TransactionOpMsgMaxSize, o.TransactionOpBatchInterval = 8, time.Hour })
	var list []prepared
	for i := range 9 {
		list = append(list, prepare(t, b, client, fmt.Sprint(i), ""))
	}
	for _, p := range list {
		require.Equal(t, remoting.Success, end(t, b, client, p, rollBack).Code)
	}
	stored(t, b, meta.OpHalfTopic, 0, 0) // enough has gathered; how many come until it is written nobody says
	require.NoError(t, b.halves.writeOps())
	all, records := "", int64(0)
	for ; len(all) < len("0,1,2,3,4,5,6,7,8,"); records++ {
		r := stored(t, b, meta.OpHalfTopic, 0, records)
		all += string(r.Body)
	}
	require.Equal(t, "0,1,2,3,4,5,6,7,8,", all)
	require.LessOrEqual(t, records, int64(3), "8 bytes each, and the rest")

	b, client, _ = openTransactions(t, func(o *Options) { o.TransactionOpBatchInterval = time.Millisecond })
	require.Equal(t, remoting.Success, end(t, b, client, prepare(t, b, client, "x", ""), rollBack).Code)
	r := stored(t, b, meta.OpHalfTopic, 0, 0)
	require.Equal(t, "0,", string(r.Body), "after the interval")
	require.Equal(t, 3, opLength([]byte("12,3,"), 1))
	require.Equal(t, 5, opLength([]byte("12,3,"), 4))
}

// The check runs by itself.
func TestT17ChecksComeRound(t *testing.T) {
	b, client, clock := openClocked(t, func(o *Options) { o.TransactionCheckInterval = 5 * time.Millisecond })
	_, asked := producer(t, b)
	prepare(t, b, client, "x", "")
	clock.advance(b, 6*time.Second)
	question(t, asked)
	question(t, asked)
}
