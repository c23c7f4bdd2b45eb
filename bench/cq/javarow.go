package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/tandemq/tandemmq/bench/load"
)

// measureJava has RocketMQ do what wholeStore does.
func measureJava(ctx context.Context, classPath string, r row, s sizes, dir string) (figures, error) {
	home, root := filepath.Join(dir, "home"), filepath.Join(dir, "row")
	if err := os.Mkdir(home, 0o755); err != nil {
		return nil, err
	}
	j, x := load.Java{ClassPath: classPath, Home: home, Engine: r.engine}, figures{}
	if err := j.Put(ctx, root, r.queues, r.messages, warmup(r, s), x); err != nil {
		return nil, err
	}
	return x, j.Read(ctx, root, r.messages+warmup(r, s), s.Samples, x)
}

// warmup is how many messages Java puts before its clock starts. With many queues they make the queues as well, which is a part of what is measured, so there are none.
func warmup(r row, s sizes) int {
	if r.queues > topicQueues {
		return 0
	}
	return s.Warmup
}
