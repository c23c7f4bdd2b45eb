package java

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// logback keeps RocketMQ's broker from logging each request.
const logback = `<configuration>
  <appender name="F" class="ch.qos.logback.core.FileAppender">
    <file>%s</file>
    <encoder><pattern>%%d %%p %%c - %%m%%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="F"/></root>
</configuration>
`

// Quiet returns options of a JVM whose RocketMQ programs log warnings alone, into dir, which is there.
func Quiet(dir string) ([]string, error) {
	conf := filepath.Join(dir, "logback.xml")
	err := os.WriteFile(conf, fmt.Appendf(nil, logback, filepath.Join(dir, "rocketmq.log")), 0o600)
	return []string{"-Drmq.logback.configurationFile=" + conf, "-Drocketmq.client.logRoot=" + dir}, err
}

// BrokerConf writes the broker.conf of a broker with its store and whatever else it writes below dir, which is made, and returns its path. The broker listens on free ports of 127.0.0.1 and
// registers with the NameServer at namesrv. Properties go over RocketMQ's defaults and over these.
func BrokerConf(dir, namesrv string, properties map[string]string) (path string, err error) {
	home := filepath.Join(dir, "home")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return "", err
	}
	all := map[string]string{
		"brokerName": "broker", "brokerIP1": "127.0.0.1", "bindAddress": "127.0.0.1", "listenPort": "0", "namesrvAddr": namesrv, "rocketmqHome": home, "storePathRootDir": filepath.Join(dir, "store"),
	}
	maps.Copy(all, properties)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&text, "%s=%s\n", name, all[name])
	}
	path = filepath.Join(home, "broker.conf")
	return path, os.WriteFile(path, []byte(text.String()), 0o600)
}

// BrokerCommand prepares a run of RocketMQ's broker by a BrokerConf. It prints "ready HOST:PORT" when it serves; it ends when its standard input does.
func BrokerCommand(ctx context.Context, dir, namesrv string, jvm []string, properties map[string]string) (*exec.Cmd, error) {
	brokerPath, err := BuildBroker(ctx)
	if err != nil {
		return nil, err
	}
	storePath, err := Build(ctx) // it has what keeps the port for replicas closed
	if err != nil {
		return nil, err
	}
	conf, err := BrokerConf(dir, namesrv, properties)
	if err != nil {
		return nil, err
	}
	home := filepath.Dir(conf)
	quiet, err := Quiet(home)
	if err != nil {
		return nil, err
	}
	return Command(ctx, storePath+string(os.PathListSeparator)+brokerPath, home, append(quiet, jvm...), "BrokerRun", conf), nil
}
