package broker

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/remoting"
)

// clientWith is another client.
func clientWith(t *testing.T, change func(o *remoting.ClientOptions)) *remoting.Client {
	t.Helper()
	o := remoting.DefaultClientOptions()
	change(&o)
	c, err := remoting.NewClient(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// writePair makes a key pair in files, and a pool that trusts it.
func writePair(t *testing.T) (certPath, keyPath string, pool *x509.CertPool) {
	t.Helper()
	dir := t.TempDir()
	certPath, keyPath, pool = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), x509.NewCertPool()
	pair, err := remoting.SelfSigned()
	require.NoError(t, err)
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
	require.NoError(t, os.WriteFile(certPath, cert, 0o600))
	require.NoError(t, os.WriteFile(keyPath, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))
	require.True(t, pool.AppendCertsFromPEM(cert))
	return certPath, keyPath, pool
}

func TestT07TLSAndPlainClientsAtOnce(t *testing.T) {
	certPath, keyPath, pool := writePair(t)
	b, plain := openTest(t, func(o *Options) {
		o.TLSMode, o.TLSCertPath, o.TLSKeyPath, o.EmbeddedNamesrv = remoting.TLSPermissive, certPath, keyPath, "127.0.0.1:0"
	})
	secure := clientWith(t, func(o *remoting.ClientOptions) { o.TLS = &tls.Config{RootCAs: pool} })
	var all sync.WaitGroup
	for _, client := range []*remoting.Client{plain, secure} {
		all.Go(func() {
			for range 50 {
				if resp := sendV2(t, b, client, "T", []byte("hello"), ""); resp.Code != remoting.Success {
					t.Error(resp.Remark)
				}
			}
		})
	}
	all.Wait()
	stored(t, b, "T", 1, 99)
	for _, client := range []*remoting.Client{plain, secure} {
		require.Len(t, bodies(t, invoke(t, b, client, pullRequest(remoting.PullMessage, 0, pullSubscription))), 32)
		resp, err := client.Invoke(t.Context(), b.NameServerAddr().String(), &remoting.Command{Code: remoting.GetRouteInfoByTopic, Ext: remoting.Ext{field("topic", "T")}})
		require.NoError(t, err)
		require.Equal(t, remoting.Success, resp.Code, "the embedded NameServer does as the broker")
	}
}

func TestT07EnforcingTakesTLSAlone(t *testing.T) {
	certPath, keyPath, pool := writePair(t)
	b, plain := openTest(t, func(o *Options) {
		o.TLSMode, o.TLSCertPath, o.TLSKeyPath, o.EmbeddedNamesrv = remoting.TLSEnforcing, certPath, keyPath, "127.0.0.1:0"
		o.TLSEnable, o.TLSAuthServer, o.TLSTrustCertPath = true, true, certPath
	})
	secure := clientWith(t, func(o *remoting.ClientOptions) { o.TLS = &tls.Config{RootCAs: pool} })
	require.Equal(t, remoting.Success, sendV2(t, b, secure, "T", []byte("hello"), "").Code)
	for _, addr := range []string{b.Addr().String(), b.NameServerAddr().String()} {
		_, err := plain.Invoke(t.Context(), addr, &remoting.Command{Code: remoting.GetBrokerConfig})
		require.Error(t, err)
	}
	resp, err := secure.Invoke(t.Context(), b.NameServerAddr().String(), &remoting.Command{Code: remoting.GetRouteInfoByTopic, Ext: remoting.Ext{field("topic", "T")}})
	require.NoError(t, err)
	require.Equal(t, remoting.Success, resp.Code, "the broker has registered by TLS")
}

func TestT07TheVIPPortServes(t *testing.T) {
	var b *Broker
	var client *remoting.Client
	for range 20 { // until nobody has taken the pair of ports in between
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		port := l.Addr().(*net.TCPAddr).Port
		require.NoError(t, l.Close())
		other, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port-2))
		if err != nil {
			continue
		}
		require.NoError(t, other.Close())
		b, client = openTest(t, func(o *Options) { o.ListenPort, o.TLSMode, o.TLSTestMode = port, remoting.TLSPermissive, true })
		break
	}
	require.NotNil(t, b)
	vip := fmt.Sprintf("127.0.0.1:%d", b.Addr().Port()-2)
	for _, c := range []*remoting.Client{client, clientWith(t, func(o *remoting.ClientOptions) { o.TLS = &tls.Config{InsecureSkipVerify: true} })} {
		resp, err := c.Invoke(t.Context(), vip, &remoting.Command{Code: remoting.SendMessage, Body: []byte("x"), Ext: remoting.Ext{
			field("producerGroup", "pg"), field("topic", "T"), field("defaultTopic", meta.AutoCreateTopic), field("defaultTopicQueueNums", "4"), field("queueId", "1"), field("sysFlag", "0"),
			field("bornTimestamp", "1"), field("flag", "0"),
		}})
		require.NoError(t, err)
		require.Equal(t, remoting.Success, resp.Code, resp.Remark)
	}
	stored(t, b, "T", 1, 1)
}

func TestSecurityOptionsAreRefused(t *testing.T) {
	t.Setenv("ROCKETMQ_HOME", "")
	for _, c := range []struct {
		conf map[string]string
		want string
	}{
		{map[string]string{"tls.server.mode": "on"}, `tls.server.mode is "on", want disabled, permissive or enforcing`},
		{map[string]string{"tls.server.mode": "permissive"}, "tls.test.mode.enable=true has a pair made"},
		{map[string]string{"tls.server.mode": "permissive", "tls.server.certPath": "c", "tls.test.mode.enable": "true"}, "one is given, want both or none"},
		{map[string]string{"tls.server.mode": "enforcing", "tls.test.mode.enable": "true", "embeddedNamesrv": "127.0.0.1:0"}, "could not register with it"},
		{map[string]string{"tls.enable": "true", "embeddedNamesrv": "127.0.0.1:0"}, "could not register with it"},
		{map[string]string{"tls.server.need.client.auth": "require"}, "certificates of clients are not checked"},
		{map[string]string{"tls.server.keyPassword": "TOPSECRET"}, "tls.server.keyPassword is set: an encrypted key cannot be read"},
		{map[string]string{"authenticationEnabled": "true"}, "aclEnable=true"},
		{map[string]string{"authorizationEnabled": "true"}, "aclEnable=true"},
		{map[string]string{"aclEnable": "true"}, "aclFile is missing"},
		{map[string]string{"maxHeldPulls": "0"}, "maxHeldPulls is 0"},
	} {
		_, _, err := ParseOptions(c.conf)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "TOPSECRET")
	}
	o, notes, err := ParseOptions(map[string]string{"tls.server.mode": "disabled", "tls.server.need.client.auth": "none", "tls.server.authClient": "False", "authenticationEnabled": "false"})
	require.NoError(t, err)
	require.Empty(t, notes)
	require.Equal(t, memoryBytes()/8, o.MaxInFlightBytes)
	t.Setenv("ROCKETMQ_HOME", "/opt/r")
	require.Equal(t, filepath.FromSlash("/opt/r/conf/plain_acl.yml"), DefaultOptions().ACLFile)
}

const rules = `accounts:
- accessKey: producer1
  secretKey: TOPSECRET1
  topicPerms: [T=PUB]
- accessKey: consumer1
  secretKey: TOPSECRET2
  topicPerms: [T=SUB]
  groupPerms: [g=SUB]
- accessKey: operator
  secretKey: TOPSECRET3
  admin: true
`

// openGuarded starts a broker with access rules, and a client of each account.
func openGuarded(t *testing.T, logged *bytes.Buffer) (b *Broker, nobody, producer, consumer, admin *remoting.Client, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "plain_acl.yml")
	require.NoError(t, os.WriteFile(path, []byte(rules), 0o600))
	b, nobody = openTest(t, func(o *Options) {
		o.ACLEnable, o.ACLFile = true, path
		o.Logger = slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	as := func(key, secret string) *remoting.Client {
		return clientWith(t, func(o *remoting.ClientOptions) { o.Sign = remoting.Credentials{AccessKey: key, SecretKey: secret}.Sign })
	}
	return b, nobody, as("producer1", "TOPSECRET1"), as("consumer1", "TOPSECRET2"), as("operator", "TOPSECRET3"), path
}

func TestAccessRules(t *testing.T) {
	var logged bytes.Buffer
	b, nobody, producer, consumer, admin, path := openGuarded(t, &logged)
	wrong := clientWith(t, func(o *remoting.ClientOptions) {
		o.Sign = remoting.Credentials{AccessKey: "operator", SecretKey: "GUESSEDKEY"}.Sign
	})
	refused := func(resp *remoting.Command, want string) {
		t.Helper()
		require.Equal(t, remoting.NoPermission, resp.Code, resp.Remark)
		require.Contains(t, resp.Remark, want)
		require.NotContains(t, resp.Remark, "SECRET")
		require.NotContains(t, resp.Remark, "Signature")
	}
	good := func(resp *remoting.Command) {
		t.Helper()
		require.Equal(t, remoting.Success, resp.Code, resp.Remark)
	}
	// Keys.
	refused(sendV2(t, b, nobody, "T", []byte("x"), ""), "needs an access key")
	refused(sendV2(t, b, wrong, "T", []byte("x"), ""), "access key or the signature is wrong")
	// Sends: PUB of the topic.
	refused(sendV2(t, b, consumer, "T", []byte("x"), ""), "no permission PUB on topic T")
	refused(sendV2(t, b, producer, "U", []byte("x"), ""), "no permission PUB on topic U")
	_, made := b.topics.Get("U")
	require.False(t, made, "a refused send makes no topic")
	good(sendV2(t, b, producer, "T", []byte("one"), ""))
	good(sendV2(t, b, admin, "U", []byte("two"), ""))
	r := stored(t, b, "U", 1, 0)
	inU := strconv.FormatInt(r.PhyOffset, 10)
	r = stored(t, b, "T", 1, 0)
	inT := strconv.FormatInt(r.PhyOffset, 10)
	// Heartbeats: SUB of the group and of each topic.
	good(call(t, b, consumer, remoting.Heartbeat, beat("1", "g", "T")))
	refused(call(t, b, consumer, remoting.Heartbeat, beat("1", "g", "U")), "no permission SUB on topic U")
	refused(call(t, b, consumer, remoting.Heartbeat, beat("1", "h", "T")), "no permission SUB on group h")
	// Pulls: SUB of both.
	resp := invoke(t, b, consumer, pullRequest(remoting.PullMessage, 0, pullSubscription))
	good(resp)
	require.Equal(t, []string{"one"}, bodies(t, resp))
	refused(invoke(t, b, producer, pullRequest(remoting.PullMessage, 0, pullSubscription)), "no permission SUB on topic T")
	refused(invoke(t, b, consumer, pullRequest(remoting.PullMessage, 0, pullSubscription, field("topic", "U"))), "no permission SUB on topic U")
	refused(invoke(t, b, consumer, pullRequest(remoting.PullMessage, 0, pullSubscription, field("consumerGroup", "h"))), "no permission SUB on group h")
	// Retry topics are the group's; dead letters are topics.
	good(sendV2(t, b, consumer, "%RETRY%g", []byte("again"), "", field("e", "0")))
	refused(sendV2(t, b, producer, "%RETRY%g", []byte("again"), "", field("e", "0")), "no permission SUB on group g")
	refused(invoke(t, b, consumer, pullRequest(remoting.PullMessage, 0, pullSubscription, field("topic", "%DLQ%g"))), "no permission SUB on topic %DLQ%g")
	// Messages by their place in the log: the right to their topic, not to the one that is named.
	good(call(t, b, consumer, remoting.ViewMessageByID, nil, field("offset", inT)))
	refused(call(t, b, consumer, remoting.ViewMessageByID, nil, field("offset", inU), field("topic", "T")), "no permission SUB on topic U")
	back := func(offset string) *remoting.Command {
		return call(t, b, consumer, remoting.ConsumerSendMsgBack, nil, field("offset", offset), field("group", "g"), field("delayLevel", "0"), field("originTopic", "T"))
	}
	good(back(inT))
	refused(back(inU), "no permission SUB on topic U")
	end := func(client *remoting.Client, offset string) *remoting.Command {
		return call(t, b, client, remoting.EndTransaction, nil, field("producerGroup", "pg"), field("tranStateTableOffset", "0"), field("commitLogOffset", offset), field("commitOrRollback", "8"),
			field("msgId", "U"), field("topic", "T"))
	}
	good(sendV2(t, b, producer, "T", []byte("half"), "TRAN_MSG\x01true\x02UNIQ_KEY\x01U\x02PGROUP\x01pg\x02", field("f", "4")))
	r = stored(t, b, meta.HalfTopic, 0, 0)
	half := strconv.FormatInt(r.PhyOffset, 10)
	refused(end(consumer, half), "no permission PUB on topic T")
	good(end(producer, half))
	refused(end(producer, inU), "no permission PUB on topic U")
	// Offsets, members, leaving.
	good(call(t, b, consumer, remoting.UpdateConsumerOffset, nil, field("consumerGroup", "g"), field("topic", "T"), field("queueId", "1"), field("commitOffset", "1")))
	refused(call(t, b, producer, remoting.UpdateConsumerOffset, nil, field("consumerGroup", "g"), field("topic", "T"), field("queueId", "1"), field("commitOffset", "0")), "no permission")
	good(call(t, b, consumer, remoting.GetConsumerListByGroup, nil, field("consumerGroup", "g")))
	refused(call(t, b, producer, remoting.GetConsumerListByGroup, nil, field("consumerGroup", "g")), "no permission SUB on group g")
	refused(call(t, b, producer, remoting.UnregisterClient, nil, field("clientID", "1"), field("consumerGroup", "g")), "no permission SUB on group g")
	good(call(t, b, consumer, remoting.UnregisterClient, nil, field("clientID", "1"), field("consumerGroup", "g")))
	// What an admin alone may do.
	refused(call(t, b, consumer, remoting.ConsumeMessageDirectly, nil, field("consumerGroup", "g")), "needs an admin's account")
	require.Equal(t, remoting.SystemError, call(t, b, admin, remoting.ConsumeMessageDirectly, nil, field("consumerGroup", "g")).Code, "served, and found wanting")
	refused(call(t, b, producer, remoting.UpdateBrokerConfig, []byte("brokerPermission=4\n")), "needs an admin's account")
	good(call(t, b, admin, remoting.UpdateBrokerConfig, []byte("traceOn=false\n")))
	for _, p := range []string{"aclEnable=false", "authenticationEnabled=true", "tls.server.keyPassword=TOPSECRET"} {
		resp := call(t, b, admin, remoting.UpdateBrokerConfig, []byte(p+"\n"))
		require.Equal(t, remoting.SystemError, resp.Code, p)
		require.NotContains(t, resp.Remark, "SECRET")
	}
	good(call(t, b, producer, remoting.GetBrokerRuntimeInfo, nil))
	require.Equal(t, remoting.RequestCodeNotSupported, call(t, b, nobody, 9999, nil).Code)

	// Changed rules hold at once for connections that are there.
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(rules, "T=PUB", "U=PUB", 1)), 0o600))
	require.NoError(t, os.Chtimes(path, time.Now(), time.Now().Add(time.Hour)))
	b.rules.Reload()
	refused(sendV2(t, b, producer, "T", []byte("x"), ""), "no permission PUB on topic T")
	good(sendV2(t, b, producer, "U", []byte("x"), ""))
	require.NoError(t, b.Close())
	require.Contains(t, logged.String(), "a request was refused")
	for _, secret := range []string{"SECRET", "GUESSEDKEY", "Signature", "signature="} {
		require.NotContains(t, logged.String(), secret)
	}
}

func TestAccessRulesByAddress(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plain_acl.yml")
	require.NoError(t, os.WriteFile(path, []byte("globalWhiteRemoteAddresses: [127.0.0.*]\n"), 0o600))
	b, client := openTest(t, func(o *Options) { o.ACLEnable, o.ACLFile = true, path })
	require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("x"), "").Code)
}

// Half and delayed messages wait in topics of the broker's, and belong to the topic they are for.
func TestTopicOfAWaitingMessage(t *testing.T) {
	b, client := openTest(t, nil)
	require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("later"), "DELAY\x013\x02").Code)
	require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("half"), "TRAN_MSG\x01true\x02UNIQ_KEY\x01U\x02PGROUP\x01pg\x02", field("f", "4")).Code)
	require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("plain"), "REAL_TOPIC\x01U\x02").Code)
	for _, r := range []message.Record{stored(t, b, meta.ScheduleTopic, 2, 0), stored(t, b, meta.HalfTopic, 0, 0), stored(t, b, "T", 1, 0)} {
		topic, ok := b.topicAt(r.PhyOffset)
		require.True(t, ok)
		require.Equal(t, "T", topic, "a property that a client has set counts for nothing")
		_, ok = b.topicAt(r.PhyOffset + 1)
		require.False(t, ok)
	}
}

// Without access rules keys and signatures mean nothing.
func TestSignaturesAreIgnored(t *testing.T) {
	b, _ := openTest(t, nil)
	signing := clientWith(t, func(o *remoting.ClientOptions) {
		o.Sign = remoting.Credentials{AccessKey: "a", SecretKey: "b", SecurityToken: "c"}.Sign
	})
	require.Equal(t, remoting.Success, sendV2(t, b, signing, "T", []byte("x"), "").Code)
}

func TestBadAccessRulesAreRefusedAtTheStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plain_acl.yml")
	require.NoError(t, os.WriteFile(path, []byte("accounts:\n- accesKey: x\n"), 0o600))
	o := DefaultOptions()
	o.BrokerName, o.StorePathRootDir, o.ACLEnable, o.ACLFile = "b", t.TempDir(), true, path
	_, err := Open(o)
	require.ErrorContains(t, err, path+":2: a field that is not known here")
}

func TestHeldPullsAreBounded(t *testing.T) {
	for _, bound := range []func(o *Options){
		func(o *Options) { o.MaxHeldPulls = 2 },
		func(o *Options) { o.MaxHeldPullBytes = 2*(heldBytes+2) + bytesPerCharacter },
	} {
		b, client := openTest(t, bound)
		require.NoError(t, b.topics.Put(meta.NewTopic("T", 4, 6)))
		one := waiting(t, b, client, pullRequest(remoting.PullMessage, 0, pullSubscription|pullSuspend))
		two := waiting(t, b, client, pullRequest(remoting.PullMessage, 0, pullSubscription|pullSuspend))
		resp := invoke(t, b, client, pullRequest(remoting.PullMessage, 0, pullSubscription|pullSuspend))
		require.Equal(t, remoting.SystemBusy, resp.Code, resp.Remark)
		require.Contains(t, resp.Remark, "[OVERLOAD]too many pulls wait")
		require.Equal(t, remoting.PullNotFound, invoke(t, b, client, pullRequest(remoting.PullMessage, 0, pullSubscription)).Code, "one that does not wait is served")
		require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("one"), "").Code)
		require.Equal(t, []string{"one"}, bodies(t, <-one))
		require.Equal(t, []string{"one"}, bodies(t, <-two))
		require.Zero(t, b.holds.waiting.Load())
		require.Zero(t, b.holds.bytes.Load(), "what was reserved is given back")
		again := pullRequest(remoting.PullMessage, 1, pullSubscription|pullSuspend, field("suspendTimeoutMillis", "10"))
		require.Equal(t, remoting.PullNotFound, invoke(t, b, client, again).Code, "there is room again")
	}
}

// A large expression counts once, however many pulls wait with it.
func TestHeldPullsShareTheirFilter(t *testing.T) {
	b, _ := openTest(t, nil)
	f := b.filters.get("TAG", "A || B")
	p := &pull{group: "g", topic: "T", filter: f}
	require.True(t, b.holds.reserve(p))
	require.Equal(t, heldBytes+2+6*bytesPerCharacter, int(b.holds.bytes.Load()))
	require.True(t, b.holds.reserve(p))
	require.Equal(t, 2*(heldBytes+2)+6*bytesPerCharacter, int(b.holds.bytes.Load()))
	b.holds.release(p)
	b.holds.release(p)
	require.Zero(t, b.holds.bytes.Load())
}

// The memory of compiled expressions is no more than is counted.
func TestBytesOfFilters(t *testing.T) {
	for _, unit := range []string{"a=1 OR ", "a IN ('x','y') OR ", "a IS NULL OR ", "NOT a OR "} {
		text := strings.Repeat(unit, 200) + "b"
		const n = 20
		var before, after runtime.MemStats
		var cache filterCache
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range n {
			require.NoError(t, cache.get("SQL92", text+strconv.Itoa(i)).err, unit)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		used := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / n
		t.Logf("%q: %d bytes a character", unit, used/int64(len(text)))
		require.LessOrEqual(t, used, int64(len(text))*bytesPerCharacter, unit)
		runtime.KeepAlive(&cache)
	}
}

func TestFiltersAreBoundedInBytes(t *testing.T) {
	var cache filterCache
	large := strings.Repeat("x", maxFilterBytes/bytesPerCharacter/4)
	for i := range 10 {
		cache.get("TAG", large+strconv.Itoa(i))
		require.LessOrEqual(t, cache.bytes, int64(maxFilterBytes))
		require.LessOrEqual(t, len(cache.all), 4)
	}
}

// Answers that wait for slow clients: pulls that are woken are refused until they are gone.
func TestHeldPullsOverTheBudget(t *testing.T) {
	b, client := openTest(t, func(o *Options) { o.MaxInFlightBytes = 2 << 20 })
	body := make([]byte, 300<<10)
	require.Equal(t, remoting.Success, sendV2(t, b, client, "T", body, "").Code)
	stored(t, b, "T", 1, 0)
	answer := waiting(t, b, client, pullRequest(remoting.PullMessage, 1, pullSubscription|pullSuspend, field("suspendTimeoutMillis", "60000")))

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	slow, err := new(net.Dialer).DialContext(ctx, "tcp", b.Addr().String())
	require.NoError(t, err)
	defer func() { require.NoError(t, slow.Close()) }()
	require.NoError(t, slow.(*net.TCPConn).SetReadBuffer(4096))
	header := `{"code":11,"flag":0,"language":"JAVA","opaque":1,"serializeTypeCurrentRPC":"JSON","version":513,"extFields":{"consumerGroup":"g","topic":"T","queueId":"1","queueOffset":"0",` +
		`"maxMsgNums":"1","sysFlag":"4","commitOffset":"0","suspendTimeoutMillis":"0","subscription":"*","subVersion":"0","expressionType":"TAG"}}`
	frame := append([]byte{0, 0, 0, byte(4 + len(header)), 0, 0, 0, byte(len(header))}, header...)
	n := 4 + len(header)
	frame[2], frame[3], frame[6], frame[7] = byte(n>>8), byte(n), byte(len(header)>>8), byte(len(header))
	const still = 200
	over := 0 // rounds on end in which the sockets took nothing more
	for round := 0; round < 100_000 && over < still; round++ {
		if over++; b.server.Stats().ResponseBytes <= 1<<20 {
			over = 0
			_, err := slow.Write(frame)
			require.NoError(t, err)
		}
		require.Equal(t, remoting.Success, call(t, b, client, remoting.UnregisterClient, nil, field("clientID", "x")).Code) // time for the pull
	}
	require.Equal(t, still, over)
	require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("wake"), "").Code, "sends are served all the same")
	resp := <-answer
	require.Equal(t, remoting.SystemBusy, resp.Code)
	require.Contains(t, resp.Remark, "[OVERLOAD]")
}
