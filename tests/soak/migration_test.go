package soak

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/broker"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate/online"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/remoting"
)

// beginAt is when the migration begins. Until then the log is kept: of 64 MiB and more, which is there after a minute, a side is filled while the broker serves, and not before it does.
const beginAt = 0.15

// migration moves the queues from files to RocksDB while messages flow: begun, filled and verified between kills in the first quarter, with reads to and fro; once to and fro in the second one, so that all that is read then
// has been read before; cut over in the middle, rolled back and cut over again while it is looked at what grows; finished behind that.
func migration() []disruption {
	const canaries = "topics"
	return []disruption{
		{"begin", beginAt, step(broker.MigrateBegin, "to", string(cq.KindRocks))},
		{"restart with both sides", beginAt, restarted},
		{"kill -9 while the target is filled", beginAt + 0.005, killedWhile(state.Backfilling)},
		{"retention begins", beginAt + 0.005, (*soak).beginRetention},
		{"reads of the topic move", 0.19, step(broker.MigrateCutover, canaries, topic)},
		{"kill -9 with a topic moved", 0.19, killed},
		{"cutover", 0.21, step(broker.MigrateCutover)},
		{"kill -9 behind a cutover", 0.21, killed},
		{"rollback", 0.23, step(broker.MigrateRollback)},
		{"verify", 0.24, step(broker.MigrateVerify)},

		{"cutover", 0.3, step(broker.MigrateCutover)},
		{"rollback", 0.4, step(broker.MigrateRollback)},
		{"verify", 0.42, step(broker.MigrateVerify)},

		{"cutover", 0.5, step(broker.MigrateCutover)},
		{"rollback", 0.6, step(broker.MigrateRollback)},
		{"verify", 0.62, step(broker.MigrateVerify)},
		{"reads of the topic move", 0.7, step(broker.MigrateCutover, canaries, topic)},
		{"cutover", 0.8, step(broker.MigrateCutover)},

		{"finalize", looksEnd, step(broker.MigrateFinalize, "graceSeconds", "1")},
		{"kill -9 before it is finished", looksEnd, killed},
		{"restart with RocksDB alone", looksEnd, finished},
	}
}

// step asks the broker for a step of the migration, with the fields of it. What it refuses is to be tried again.
func step(name string, fields ...string) func(s *soak) error {
	req := &remoting.Command{Code: remoting.MigrateOnline, Ext: remoting.Ext{{Key: "step", Value: name}, {Key: "actor", Value: "soak"}}}
	for pair := range slices.Chunk(fields, 2) {
		req.Ext.Set(pair[0], pair[1])
	}
	return func(s *soak) error {
		_, err := s.remote().Call(s.t.Context(), req)
		var answer *remoting.ResponseError
		if errors.As(err, &answer) && answer.Code == remoting.MigrationRefused {
			return &notYet{answer.Remark}
		}
		return err
	}
}

// status asks the broker how the migration stands.
func (s *soak) status() (st online.Status, err error) {
	resp, err := s.remote().Call(s.t.Context(), &remoting.Command{Code: remoting.MigrateOnlineStatus})
	if err == nil {
		err = json.Unmarshal(resp.Body, &st)
	}
	return st, err
}

// killedWhile kills the broker when the migration is in that phase, or, as that may be over in no time, has been.
func killedWhile(phase state.Phase) func(s *soak) error {
	return func(s *soak) error {
		st, err := s.status()
		if err != nil {
			return err
		}
		if st.Phase != phase && !slices.ContainsFunc(st.History, func(h state.HistoryEntry) bool { return h.Phase == phase }) {
			return &notYet{fmt.Sprintf("the migration is %s, and was not %s", st.Phase, phase)}
		}
		if f := st.Fill; f != nil {
			s.t.Logf("the target is filled up to %d of %d", f.Done, f.To)
		}
		return killed(s)
	}
}

// finished restarts the broker in order, which leaves one side, when the other has been compared once more: what a kill voids.
func finished(s *soak) error {
	st, err := s.status()
	if err != nil {
		return err
	}
	if !st.RestartNeeded {
		return &notYet{fmt.Sprintf("the migration is %s, and asks for no restart", st.Phase)}
	}
	if err := restarted(s); err != nil {
		return err
	}
	st, err = s.status()
	if err == nil && (st.Phase != state.Finalized || st.Queues != cq.KindRocks) {
		err = fmt.Errorf("the migration is %s, with queues in %s", st.Phase, st.Queues)
	}
	return err
}

// requireMigrated requires of the audit trail that everything was done.
func (s *soak) requireMigrated() {
	st, err := state.Load(filepath.Join(s.root, "tandemmq"))
	require.NoError(s.t, err)
	var trail []string
	count := map[state.Event]int{}
	for _, h := range st.History {
		count[h.Event]++
		trail = append(trail, fmt.Sprintf("%s: %s %s", h.Event, h.Phase, h.Note))
	}
	all := strings.Join(trail, "\n")
	s.t.Log(all)
	require.Equal(s.t, state.Finalized, st.Phase)
	require.Equal(s.t, cq.KindRocks, st.Kept)
	require.Equal(s.t, 4, count[state.CutOver], all)
	require.Equal(s.t, 3, count[state.RollbackEnd], all)
	require.GreaterOrEqual(s.t, count[state.Canary], 2, all)
	require.Zero(s.t, count[state.VerifyDiffers], all)
	require.NoDirExists(s.t, filepath.Join(s.root, "consumequeue", topic))
}
