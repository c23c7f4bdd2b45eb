package java

import (
	"context"
	"errors"
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

// BrokerCommand prepares a run of RocketMQ's broker with its store, its log and whatever else it writes below dir, which is made. It listens on free ports of 127.0.0.1, registers with the
// NameServer at namesrv, and prints "ready HOST:PORT" when it serves; it ends when its standard input does. Properties go over its defaults and over these.
func BrokerCommand(ctx context.Context, dir, namesrv string, jvm []string, properties map[string]string) (*exec.Cmd, error) {
	brokerPath, err := BuildBroker(ctx)
	if err != nil {
		return nil, err
	}
	storePath, err := Build(ctx) // it has what keeps the port for replicas closed
	if err != nil {
		return nil, err
	}
	home := filepath.Join(dir, "home")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return nil, err
	}
	all := map[string]string{
		"brokerName": "broker", "brokerIP1": "127.0.0.1", "bindAddress": "127.0.0.1", "listenPort": "0", "namesrvAddr": namesrv, "rocketmqHome": home, "storePathRootDir": filepath.Join(dir, "store"),
	}
	maps.Copy(all, properties)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&text, "%s=%s\n", name, all[name])
	}
	conf, logConf := filepath.Join(home, "broker.conf"), filepath.Join(home, "logback.xml")
	if err := errors.Join(os.WriteFile(conf, []byte(text.String()), 0o600), os.WriteFile(logConf, fmt.Appendf(nil, logback, filepath.Join(home, "broker.log")), 0o600)); err != nil {
		return nil, err
	}
	jvm = append([]string{"-Drmq.logback.configurationFile=" + logConf, "-Drocketmq.client.logRoot=" + home}, jvm...)
	return Command(ctx, storePath+string(os.PathListSeparator)+brokerPath, home, jvm, "BrokerRun", conf), nil
}
