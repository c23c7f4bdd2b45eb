package remoting

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The signatures were made by the client of RocketMQ 5.5.0.
func TestSignatures(t *testing.T) {
	tests := []struct {
		name  string
		token string
		ext   Ext
		want  string
	}{
		{"with a field of queries", "", Ext{{"topic", "Tä"}, {"key", "k"}, {"Zed", "z"}, {"_UNIQUE_KEY_QUERY", "true"}}, "m7fO6YGFwIUMv8KF904dkEr2l4g="},
		{"signed again", "", Ext{{"topic", "Tä"}, {"Signature", "old"}, {"key", "k"}, {"Zed", "z"}}, "365/aQGo7l5hYojMtve/kfLm5cE="},
		{"with a token", "tok", Ext{{"topic", "Tä"}, {"key", "k"}, {"Zed", "z"}}, "nkhGHZ7T7n0JhxFJx9VfoWznN0Y="},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := &Command{Code: QueryMessage, Ext: tt.ext, Body: []byte("body"), Version: V5_5_0}
			Credentials{AccessKey: "rocketmq2", SecretKey: "12345678", SecurityToken: tt.token}.Sign(req)
			require.Equal(t, tt.want, req.Ext.Get(FieldSignature))
			require.True(t, VerifySignature(req, "12345678"))
			require.False(t, VerifySignature(req, "12345679"))
			req.Body[0]++
			require.False(t, VerifySignature(req, "12345678"), "the body is signed")
			req.Body[0]--
			req.Ext.Set("key", "j")
			require.False(t, VerifySignature(req, "12345678"), "the fields are signed")
		})
	}
	t.Run("up to V4_9_3 the field of queries comes after signing", func(t *testing.T) {
		req := &Command{Ext: Ext{{"topic", "T"}}, Version: V4_9_3}
		Credentials{AccessKey: "a", SecretKey: "s"}.Sign(req)
		req.Ext.Set("_UNIQUE_KEY_QUERY", "true")
		require.True(t, VerifySignature(req, "s"))
		req.Version = V4_9_4
		require.False(t, VerifySignature(req, "s"))
	})
	t.Run("no signature, or no Base64", func(t *testing.T) {
		require.False(t, VerifySignature(&Command{}, ""))
		require.False(t, VerifySignature(&Command{Ext: Ext{{FieldSignature, ""}}}, ""))
		require.False(t, VerifySignature(&Command{Ext: Ext{{FieldSignature, "%"}}}, ""))
	})
}
