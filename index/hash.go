package index

import (
	"bytes"
	"math"

	"github.com/tandemq/tandemmq/message"
)

// Type is what kind of key a query looks for, one character as in the request of a client.
type Type byte

// The types of key. A file does not tell TypeKey and TypeUniqKey apart.
const (
	TypeKey     Type = 'K' // one of the words of KEYS
	TypeUniqKey Type = 'U' // UNIQ_KEY
	TypeTag     Type = 'T' // the whole of TAGS
)

// keyHash turns the hash of a key text into the number stored in entries.
//
// Source: IndexFile.indexKeyHashMethod, 5.5.0.
func keyHash(h int32) int32 {
	switch {
	case h == math.MinInt32: // has no positive counterpart
		return 0
	case h < 0:
		return -h
	}
	return h
}

// The text of a key is topic#key, and topic#T#tags for tags. Only its hash is ever needed, so the text is never put together:
// these continue the hash over the next piece.
func hashTopic(topic []byte) int32        { return 31*message.HashUTF16(0, topic) + '#' }
func hashTagPrefix(topicHash int32) int32 { return 31*(31*topicHash+'T') + '#' }

// HashKey returns the hash stored in the entries of a key; any type but TypeTag counts as TypeKey.
//
// Source: IndexService.buildKey, IndexService.queryOffset, 5.5.0.
func HashKey(topic, key []byte, t Type) int32 {
	h := hashTopic(topic)
	if t == TypeTag {
		h = hashTagPrefix(h)
	}
	return keyHash(message.HashUTF16(h, key))
}

// appendKeys appends the hashes under which a message is looked up, in the order in which RocketMQ adds them: the unique key, the
// words of KEYS, the tags. topicHash is that of its topic.
//
// Source: IndexService.buildIndex, 5.5.0.
func appendKeys(dst []int32, r *message.DispatchRequest, topicHash int32) []int32 {
	if r.UniqKey != nil {
		dst = append(dst, keyHash(message.HashUTF16(topicHash, r.UniqKey)))
	}
	for keys := r.Keys; len(keys) > 0; {
		n := bytes.IndexByte(keys, ' ')
		word := keys
		if n < 0 {
			keys = nil
		} else {
			word, keys = keys[:n], keys[n+1:]
		}
		if len(word) > 0 {
			dst = append(dst, keyHash(message.HashUTF16(topicHash, word)))
		}
	}
	if len(r.Tags) > 0 {
		dst = append(dst, keyHash(message.HashUTF16(hashTagPrefix(topicHash), r.Tags)))
	}
	return dst
}
