package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
	"github.com/tandemq/tandemmq/message"
)

// A process with three producers is killed while the second of them fills: the first was acknowledged, the third has filled and waits. The next writer
// cuts the log at the hole, durably, and goes on from there.
func TestKilledWhileFillingIsNoDamage(t *testing.T) {
	for _, c := range []struct {
		name string
		fill func(dst []byte, m *message.Message) // what the second one has come to
	}{
		{"nothing", func([]byte, *message.Message) {}},
		{"all but the head", func(dst []byte, m *message.Message) {
			_ = m.PutTo(dst)
			clear(dst[:message.BlankHeaderSize])
		}},
		{"one record of a batch", func(dst []byte, m *message.Message) {
			n, _ := m.EncodedSize()
			_ = m.PutTo(dst[:n])
		}},
	} {
		for _, file := range []string{"same file", "third in the next file"} {
			t.Run(c.name+"/"+file, func(t *testing.T) {
				fsys := faultfs.New(faultfs.Options{})
				l := newLedger()
				o := lossOptions(fsys, false, WriteMapped)
				w := openWriter(t, o)
				require.NoError(t, l.append(w, queueMessage(0, 0)))
				written, _ := l.ends()

				size := 1000
				if file != "same file" {
					size = int(o.FileSize - written - 100)
				}
				m2 := queueMessage(1, 0)
				if c.name == "all but the head" {
					n, err := m2.EncodedSize()
					require.NoError(t, err)
					m2.Body = append(m2.Body, bytes.Repeat([]byte{'x'}, size-n)...)
				}
				var second Reservation
				require.NoError(t, w.Reserve(&second, size))
				m2.PhyOffset, m2.StoreTimestampMs = second.PhyOffset, second.StoreTimestampMs
				m3 := queueMessage(2, 0)
				third := reserve(t, w, m3)

				cutOff, begun, stored := make(chan struct{}), make(chan struct{}), make(chan struct{})
				var wg sync.WaitGroup
				wg.Go(func() {
					err := w.Publish(&second, func(dst []byte) error {
						c.fill(dst, m2)
						close(begun)
						<-cutOff
						return errTest
					})
					if !errors.Is(err, errTest) {
						t.Error(err)
					}
				})
				wg.Go(func() {
					err := w.Publish(third, func(dst []byte) error {
						defer close(stored)
						return filling(third, m3)(dst)
					})
					if !errors.Is(err, errTest) {
						t.Error(err)
					}
				})
				<-begun
				<-stored
				killed := fsys.Clone()
				close(cutOff)
				wg.Wait()
				require.ErrorIs(t, w.Close(), errTest)

				end := l.scanPrefix(t, killed)
				require.Equal(t, EndCorrupt, end.Kind)
				require.Equal(t, third.PhyOffset, end.NextValid)
				log := new(syncLog)
				o.FS, o.Logger = killed, log.logger()
				next := openWriter(t, o)
				require.Equal(t, end.Offset, next.Positions().Wrote)
				require.Equal(t, 1, log.count("records=1"))
				require.Equal(t, EndClean, l.scanPrefix(t, killed.CrashSeed(0)).Kind, "the cut is not durable")
				fork := l.fork()
				require.NoError(t, fork.append(next, queueMessage(3, 0)))
				require.NoError(t, next.Close())
				requireNothingOpen(t, killed)
			})
		}
	}
}

// scanPrefix tells how the log ends.
func (l *ledger) scanPrefix(t *testing.T, fsys *faultfs.FS) ScanEnd {
	t.Helper()
	log, err := Open(lossDir, Options{FS: fsys})
	require.NoError(t, err)
	defer func() { require.NoError(t, log.Close()) }()
	written, _ := l.ends()
	got := scan(t, log, -1, ScanOptions{CheckCRC: true})
	require.GreaterOrEqual(t, got.end.Offset, written)
	return got.end
}

// What no killed process leaves is damage: records behind it are not cut off, and the files stay as they are.
func TestDamageIsNoHoleOfAKilledProcess(t *testing.T) {
	const fileSize = 1 << 20
	for _, c := range []struct {
		name      string
		records   int // behind the hole
		spoil     func(b *builder)
		durableTo int64
		refused   bool
	}{
		{"as many puts as can be in flight", ringSize, func(*builder) {}, 0, false},
		{"one more", ringSize + 1, func(*builder) {}, 0, true},
		{"a magic", 3, func(b *builder) { b.at(b.records[2])[magicAt+3] = 1 }, 0, true},
		{"a size alone", 3, func(b *builder) { b.at(b.records[2])[3] = 1 }, 0, false}, // of a filler
		{"another hole", 5, func(b *builder) { clear(b.at(b.records[5])[:8]) }, 0, false},
		{"another hole with a magic", 5, func(b *builder) { b.at(b.records[5])[magicAt]++ }, 0, true},
		{"damage at the end", 5, func(b *builder) { b.at(b.records[7])[magicAt]++ }, 0, false},
		{"known to be whole", 3, func(*builder) {}, 10_000, true},
		{"stopped in order", 3, func(*builder) {}, math.MaxInt64, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder(t, fileSize, 0).add(20, 20, 20)
			for range c.records {
				b.add(20)
			}
			clear(b.at(b.records[2])[:8])
			c.spoil(b)
			dir := b.write()
			before, err := os.ReadFile(b.path(dir, 0))
			require.NoError(t, err)
			o := testOptions(dir, false, WriteMapped)
			o.FileSize, o.DurableTo = fileSize, c.durableTo
			w, err := OpenWriter(o)
			if !c.refused {
				require.NoError(t, err)
				require.Equal(t, b.records[2], w.Positions().Wrote)
				require.NoError(t, w.Close())
				return
			}
			require.ErrorIs(t, err, ErrCorrupt)
			after, err := os.ReadFile(b.path(dir, 0))
			require.NoError(t, err)
			require.True(t, bytes.Equal(before, after), "the damaged file was changed")
		})
	}
}

// The records of a batch are one put, however many they are.
func TestBatchBehindAHoleIsOnePut(t *testing.T) {
	for name, sameMs := range map[string]bool{"a batch": true, "single messages": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o := testOptions(dir, false, WriteMapped)
			o.FileSize = 1 << 20
			w := openWriter(t, o)
			_, err := appendMessage(w, queueMessage(0, 0))
			require.NoError(t, err)
			end := w.Positions().Wrote
			require.NoError(t, w.Close())
			raw, at := make([]byte, 0, o.FileSize), end+200
			for n := range int64(ringSize + 10) {
				m := queueMessage(1, n)
				m.PhyOffset, m.StoreTimestampMs = at+int64(len(raw)), 1_700_000_000_000
				if !sameMs {
					m.StoreTimestampMs += n
				}
				raw, err = m.AppendTo(raw)
				require.NoError(t, err)
			}
			f, err := os.OpenFile(fmt.Sprintf("%s/%020d", dir, 0), os.O_RDWR, 0)
			require.NoError(t, err)
			_, err = f.WriteAt(raw, at)
			require.NoError(t, errors.Join(err, f.Close()))
			w, err = OpenWriter(o)
			if !sameMs {
				require.ErrorIs(t, err, ErrCorrupt)
				return
			}
			require.NoError(t, err)
			require.Equal(t, end, w.Positions().Wrote)
			require.NoError(t, w.Close())
		})
	}
}
