package migrate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

func TestCertifiedQueues(t *testing.T) {
	var none *CertifiedQueues
	_, ok := none.Get(cq.Key{Topic: "a"})
	require.False(t, ok)
	require.Zero(t, none.Len())
	require.Empty(t, slices.Collect(none.All()))

	var table CertifiedQueues
	var want []Certified
	for topic := range 50 { // over several chunks, whose borders are inside of topics
		for id := range 70 {
			c := Certified{
				Key: cq.Key{Topic: fmt.Sprintf("topic%02d", topic), QueueID: int32(3 * id)}, Min: int64(id), Max: int64(topic + id), MinPhyOffset: int64(topic) << 40, MaxPhyOffset: int64(id)<<40 - 1,
				CRC: uint32(topic * id), Alone: id%7 == 0,
			}
			want = append(want, c)
			require.NoError(t, table.Add(c))
		}
	}
	require.Equal(t, len(want), table.Len())
	require.Equal(t, want, slices.Collect(table.All()))
	for _, c := range want {
		got, ok := table.Get(c.Key)
		require.True(t, ok)
		require.Equal(t, c, got)
		_, ok = table.Get(cq.Key{Topic: c.Key.Topic, QueueID: c.Key.QueueID + 1})
		require.False(t, ok)
	}
	for _, topic := range []string{"", "topic", "topic00a", "topic99"} {
		_, ok = table.Get(cq.Key{Topic: topic})
		require.False(t, ok)
	}
	for _, k := range []cq.Key{{Topic: "topic49", QueueID: 207}, {Topic: "topic49", QueueID: 3}, {Topic: "topic03", QueueID: 1}} {
		require.ErrorContains(t, table.Add(Certified{Key: k}), "in the order of their names")
	}
	require.Equal(t, len(want), table.Len())
	for c := range table.All() {
		require.Equal(t, want[0], c)
		break
	}
}

func TestCertifiedQueuesChanged(t *testing.T) {
	table := func(keys ...string) *CertifiedQueues {
		all := &CertifiedQueues{}
		for i, k := range keys {
			topic, id, _ := strings.Cut(k, "/")
			n, err := strconv.Atoi(id)
			require.NoError(t, err)
			require.NoError(t, all.Add(Certified{Key: cq.Key{Topic: topic, QueueID: int32(n)}, Max: int64(100*len(keys) + i)}))
		}
		return all
	}
	names := func(all *CertifiedQueues) (s []string) {
		for c := range all.All() {
			got, ok := all.Get(c.Key)
			require.True(t, ok)
			require.Equal(t, c, got)
			s = append(s, fmt.Sprint(c.Key, "=", c.Max))
		}
		return s
	}
	five := table("b/1", "b/2", "c/0", "d/7", "d/8")
	require.Equal(t, []string{"a/0=300", "b/1=500", "b/2=301", "c/0=502", "d/7=503", "d/8=504", "e/1=302"}, names(five.With(table("a/0", "b/2", "e/1"))))
	require.Equal(t, names(five), names(five.With(nil)))
	require.Equal(t, []string{"b/1=500", "b/2=501", "d/7=503", "d/8=504"}, names(five.Without(cq.Key{Topic: "c"})))
	require.Equal(t, names(five), names(five.Without(cq.Key{Topic: "c", QueueID: 1})))
	var none *CertifiedQueues
	require.Nil(t, none.With(five))
	require.Nil(t, none.Without(cq.Key{Topic: "c"}))
}
