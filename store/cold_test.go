package store

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// coldStore is a store on a machine without memory: all that it holds is behind what is taken to be in memory.
func coldStore(t *testing.T, change func(o *Options)) *Store {
	t.Helper()
	o := viewOptions(StoreTypeFile)
	o.ColdDataFlowControlEnable = true
	if change != nil {
		change(&o)
	}
	s := openStore(t, t.TempDir(), o)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	putSome(t, s, 20)
	awaitDispatch(t, s)
	s.memory = 0
	return s
}

// What a group reads behind the part of the memory that counts is counted, whether or not it is in memory; of nobody else, and of no group of RocketMQ itself.
func TestColdReadsAreCounted(t *testing.T) {
	s := coldStore(t, nil)
	var res GetResult
	defer res.Release()
	get(t, s, GetRequest{Group: "g", Topic: "T", MaxMessages: 3}, &res)
	require.Len(t, res.Messages, 3)
	require.Equal(t, res.Bytes, res.ColdBytes)
	once := int64(res.ColdBytes)
	get(t, s, GetRequest{Group: "g", Topic: "T", Offset: 17, MaxMessages: 3}, &res)
	other := int64(res.ColdBytes)
	get(t, s, GetRequest{Group: "h", Topic: "T", MaxMessages: 3}, &res)
	for _, group := range []string{"", "TOOLS_CONSUMER", "CID_ONSAPI_PULL", "CID_RMQ_SYS_x"} {
		get(t, s, GetRequest{Group: group, Topic: "T", MaxMessages: 3}, &res)
		require.Zero(t, res.ColdBytes)
	}
	groups, total := s.ColdGroups()
	require.Equal(t, 2*once+other, total)
	require.Len(t, groups, 2)
	require.Equal(t, "g", groups[0].Group)
	require.Equal(t, once+other, groups[0].Bytes)
	require.Equal(t, once, groups[1].Bytes)
	require.EqualValues(t, 3<<20, groups[0].LimitBytes)
	require.False(t, groups[0].Limited)

	// A filter that refuses a record has cost as much; one that refuses a unit, nothing.
	get(t, s, GetRequest{Group: "f", Topic: "T", MaxMessages: 3, Filter: &Filter{Unit: func(int64) bool { return false }}}, &res)
	require.Zero(t, res.ColdBytes)

	in, err := s.InColdArea("T", 0, 3)
	require.NoError(t, err)
	require.True(t, in)
	for _, offset := range []int64{-1, 20} {
		in, err = s.InColdArea("T", 0, offset)
		require.NoError(t, err)
		require.False(t, in)
	}
	in, err = s.InColdArea("X", 0, 0)
	require.NoError(t, err)
	require.False(t, in)
}

// With memory for all of it, or without the option, nothing is cold.
func TestNothingIsCold(t *testing.T) {
	tests := map[string]struct {
		change func(o *Options)
		memory memoryBytes
	}{
		"in the hot part":  {nil, 1 << 40},
		"off":              {func(o *Options) { o.ColdDataFlowControlEnable = false }, 0},
		"found in memory":  {func(o *Options) { o.ColdDataScanEnable = true }, 0},
		"all of it is hot": {func(o *Options) { o.AccessMessageInMemoryHotRatio = 100 }, 1 << 30},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := coldStore(t, tt.change)
			s.memory = tt.memory
			s.cold.add("g", 1<<40, time.Now())
			var res GetResult
			defer res.Release()
			get(t, s, GetRequest{Group: "g", Topic: "T"}, &res)
			require.NotEmpty(t, res.Messages)
			require.Zero(t, res.ColdBytes)
			require.Equal(t, s.o.ColdDataFlowControlEnable, s.ColdLimited("g"))
			in, err := s.InColdArea("T", 0, 3)
			require.NoError(t, err)
			require.Equal(t, s.o.ColdDataScanEnable, in)
		})
	}
}

// A group is limited by its own bytes or by those of all, but only while it reads, and until the five seconds are over. The answers are those that ColdDataCgCtrService
// of 5.5.0 gave to the same sequence.
func TestColdLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(DefaultOptions())
		s.o.ColdDataFlowControlEnable = true
		s.o.CgColdReadThreshold, s.o.GlobalColdReadThreshold = 100, 250
		add := func(group string, n int64) { s.cold.add(group, n, time.Now()) }
		add("a", 99)
		require.False(t, s.ColdLimited("a"))
		add("a", 1)
		require.True(t, s.ColdLimited("a"))
		require.False(t, s.ColdLimited("b"))

		s.SetColdLimit("a", 101)
		require.False(t, s.ColdLimited("a"))
		s.SetColdLimit("idle", 7)
		groups, total := s.ColdGroups()
		require.EqualValues(t, 100, total)
		require.Equal(t, []ColdGroup{{Group: "a", Bytes: 100, LimitBytes: 101, OwnLimit: true, Last: time.Now()}, {Group: "idle", LimitBytes: 7, OwnLimit: true}}, groups)
		s.SetColdLimit("a", 0)
		s.SetColdLimit("idle", 0)
		require.True(t, s.ColdLimited("a"))

		add("b", 60)
		add("c", 89)
		require.False(t, s.ColdLimited("b"))
		add("c", 1)
		require.True(t, s.ColdLimited("b"), "all together have read too much")
		require.False(t, s.ColdLimited("d"), "who reads nothing is not limited")
		s.cold.add("CID_RMQ_SYS_x", 1000, time.Now())
		require.False(t, s.ColdLimited("CID_RMQ_SYS_x"))

		time.Sleep(coldWindow)
		require.False(t, s.ColdLimited("a"))
		groups, total = s.ColdGroups()
		require.Zero(t, total)
		require.Zero(t, groups[0].Bytes)
		add("c", 250)
		require.True(t, s.ColdLimited("a"), "it was reading a moment ago")
		time.Sleep(coldKept)
		add("c", 250)
		require.False(t, s.ColdLimited("a"))
		time.Sleep(coldKept)
		groups, _ = s.ColdGroups()
		require.Empty(t, groups)
	})
}

// What is not in memory when a store is opened is found all the same, and counted where the kernel is asked.
func TestGetOfWhatIsNotInMemory(t *testing.T) {
	root := t.TempDir()
	o := viewOptions(StoreTypeFile)
	o.ColdDataFlowControlEnable, o.ColdDataScanEnable = true, true
	s := openStore(t, root, o)
	putSome(t, s, 60)
	require.NoError(t, s.Close())

	s = openStore(t, root, o)
	defer s.Close()
	s.memory = 0
	files, err := filepath.Glob(filepath.Join(NewLayout(root).CommitLogDir(), "0*"))
	require.NoError(t, err)
	var res GetResult
	defer res.Release()
	var cold int
	for offset := int64(0); offset < 60; offset = res.NextOffset {
		for _, path := range files { // those that the store has mapped stay
			f, err := os.Open(path)
			require.NoError(t, err)
			require.NoError(t, mmap.Datasync(f))
			require.NoError(t, mmap.DropCache(f))
			require.NoError(t, f.Close())
		}
		get(t, s, GetRequest{Group: "g", Topic: "T", Offset: offset, MaxMessages: 7}, &res)
		require.Equal(t, GetFound.String(), res.Status.String())
		for i, body := range bodies(t, &res) {
			require.Equal(t, fmt.Sprintf("body %d", offset+int64(i)), body)
		}
		cold += res.ColdBytes
	}
	_, total := s.ColdGroups()
	require.EqualValues(t, cold, total)
	if cold == 0 {
		t.Log("the filesystem keeps what it was asked to forget: only the bodies were looked at")
	}
}
