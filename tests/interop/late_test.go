//go:build interop

package interop

import (
	"testing"

	"github.com/tandemq/tandemmq/tests/golden"
)

// A broker that is started once more on its files after the cutover, before its configuration is changed, writes to the log
// and to the files alone. Started on RocksDB then, it has to dispatch what RocksDB lacks, from the first such record on: the
// checkpoint row decides, and RocketMQ takes only records beyond it.
func TestLateConfigurationChange(t *testing.T) {
	t.Parallel()
	m := golden.Manifest(t, "file-normal")
	dir := golden.Unpack(t, "file-normal")
	conf := migrateRun(t, dir, "--to", "rocks")

	onFiles := job{"files", dir, openedAs(m, "file"), appendCount}
	first := done(t, runJobs(t, []job{onFiles}), onFiles)
	requireContinued(t, first, false)

	onRocks := job{"rocks", dir, configured(t, conf.BrokerConf, m), appendCount}
	second := done(t, runJobs(t, []job{onRocks}), onRocks)
	golden.RequireMessages(t, first.appended.Messages, second.opened.Messages, "written to files after the cutover")
	requireContinued(t, second, false)
}
