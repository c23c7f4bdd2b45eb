package index

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/message"
)

// TestHashGolden holds the hash against numbers that RocketMQ 5.5.0 computed.
func TestHashGolden(t *testing.T) {
	for _, c := range []struct {
		topic, key string
		typ        Type
		hash, slot int32
	}{
		{"T1", "k1", TypeKey, 79072524, 4072524},
		{"T1", "k1", TypeUniqKey, 79072524, 4072524},
		{"T1", "k1", 0, 79072524, 4072524},
		{"TopicTest", "key1", TypeKey, 1655984460, 984460},
		{"TopicTest", "TagA", TypeTag, 1311325016, 1325016},
		{"TopicTest", "C0A8000100002A9F000000000000000A", TypeUniqKey, 1140060148, 60148},
	} {
		h := HashKey([]byte(c.topic), []byte(c.key), c.typ)
		require.Equal(t, c.hash, h, c.key)
		require.Equal(t, c.slot, h%defaultHashSlots, c.key)
	}
	require.Equal(t, int32(math.MinInt32), message.HashUTF16(0, []byte("polygenelubricants")))
	require.Equal(t, int32(0), keyHash(math.MinInt32))
}

// TestHashPieces joins a text of every kind of character from pieces.
func TestHashPieces(t *testing.T) {
	for _, topic := range []string{"", "t", "übung", "主题", "\U0001F600", "\xff"} {
		for _, key := range []string{"", "k", "é", "键", "\U0001F600\U0001F601", "\xe4\xb8"} {
			require.Equal(t, keyHash(int32(message.TagsHash([]byte(topic+"#"+key)))), HashKey([]byte(topic), []byte(key), TypeKey))
			require.Equal(t, keyHash(int32(message.TagsHash([]byte(topic+"#T#"+key)))), HashKey([]byte(topic), []byte(key), TypeTag))
		}
	}
}

func TestAppendKeys(t *testing.T) {
	for _, c := range []struct {
		name string
		r    message.DispatchRequest
		want string // the texts hashed, in order
	}{
		{"none", message.DispatchRequest{}, ""},
		{"all, in order", message.DispatchRequest{UniqKey: []byte("u"), Keys: []byte("a b"), Tags: []byte("A||B")}, "t#u,t#a,t#b,t#T#A||B"},
		{"pieces that are empty", message.DispatchRequest{Keys: []byte("  a   b ")}, "t#a,t#b"},
		{"only blanks", message.DispatchRequest{Keys: []byte("   ")}, ""},
		{"other white space divides nothing", message.DispatchRequest{Keys: []byte("a\tb\u00a0c")}, "t#a\tb\u00a0c"},
		{"a unique key without a character", message.DispatchRequest{UniqKey: []byte{}}, "t#"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.r.Topic = []byte("t")
			var want []int32
			got := appendKeys(nil, &c.r, hashTopic(c.r.Topic))
			if c.want != "" {
				for _, text := range strings.Split(c.want, ",") {
					want = append(want, keyHash(int32(message.TagsHash([]byte(text)))))
				}
			}
			require.Equal(t, want, got)
		})
	}
}
