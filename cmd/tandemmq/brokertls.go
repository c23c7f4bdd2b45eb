package main

import (
	"fmt"
	"maps"
	"strings"
)

// tlsConfFile is the property that names RocketMQ's tls.properties.
const tlsConfFile = "tls.config.file"

// addTLSConf puts what tls.config.file names under conf, which counts.
func addTLSConf(conf map[string]string) error {
	path := conf[tlsConfFile]
	if path == "" {
		return nil
	}
	delete(conf, tlsConfFile)
	more, err := readConf(path)
	if err != nil {
		return err
	}
	for name := range more {
		if !strings.HasPrefix(name, "tls.") {
			return fmt.Errorf("%s: %s: %s is not about TLS", tlsConfFile, path, name)
		}
	}
	delete(more, tlsConfFile)
	maps.Copy(more, conf)
	maps.Copy(conf, more)
	return nil
}
