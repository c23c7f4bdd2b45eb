package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// TestDeletedTopicIsMendedAtEachOpen: the note keeps queues for ever: one whose records and files are gone is built again from the whole log at every open.
func TestGoneQueueIsLookedForOnce(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	o.MessageIndexEnable = false
	root := t.TempDir()
	s := openStore(t, root, o)
	for range 5 {
		_, err := s.Put(t.Context(), plainMessage("gone", "body"))
		require.NoError(t, err)
	}
	for range 500 {
		_, err := s.Put(t.Context(), plainMessage("T", "body"))
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	require.NoError(t, os.Remove(filepath.Join(NewLayout(root).CommitLogDir(), "00000000000000000000"))) // retention
	require.NoError(t, os.RemoveAll(filepath.Join(NewLayout(root).ConsumeQueueDir(), "gone")))
	mendings := 0
	for range 3 {
		s = openStore(t, root, o)
		<-s.views.verified
		s.views.view.mu.Lock()
		if _, ok := s.views.view.mu.broken[cq.Key{Topic: "gone"}]; ok {
			mendings++
		}
		s.views.view.mu.Unlock()
		require.NoError(t, s.Close())
	}
	require.LessOrEqual(t, mendings, 1, "whole log read for a queue that has nothing, at each open")
}

var _ message.Message
