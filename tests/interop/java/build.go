// Package java builds the Java programs beside it: StoreCheck, StorePut, StoreOpen, StoreRead, StoreBench and IndexCheck, which drive the released rocketmq-store 5.5.0,
// and those of broker/, which have the whole of RocketMQ 5.5.0: ConfigCheck and FilterCheck load topics, groups and consumer offsets and ask message filters, ClientCheck and ClientLoad are clients,
// AdminRun runs commands of mqadmin, BrokerRun is a broker, and Servers are NameServers and brokers. With both class paths StoreCheck has the broker's message filters, too.
//
// It needs JDK 17 and Maven, set up to reach a repository (scripts/setup.sh java). What is built stays in the cache
// directory (TANDEMMQ_CACHE, else tandemmq in the user's cache directory), keyed by its sources.
package java

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

//go:embed pom.xml src
var storeSources embed.FS

//go:embed broker
var brokerSources embed.FS

var building sync.Mutex // one build at a time: the next one finds what it wants

// buildLimit bounds the Maven run; the first one on a machine downloads about 75 MB.
const buildLimit = 8 * time.Minute

// Build returns the class path of the programs that drive a store, building them unless the cache has them.
func Build(ctx context.Context) (classPath string, err error) {
	return buildProject(ctx, storeSources, "storecheck")
}

// BuildBroker returns that of the programs that have the whole of RocketMQ. Those that run a broker want that of Build in front.
func BuildBroker(ctx context.Context) (classPath string, err error) {
	sources, err := fs.Sub(brokerSources, "broker")
	if err != nil {
		return "", err
	}
	return buildProject(ctx, sources, "peer")
}

// Built tells whether Build has nothing to build.
func Built() bool {
	_, done, err := place(storeSources)
	if err == nil {
		_, err = os.Stat(done)
	}
	return err == nil
}

// place returns the directory of all builds, and that of a build of these sources in it.
func place(sources fs.FS) (cache, done string, err error) {
	if cache, err = cacheDir(); err != nil {
		return "", "", err
	}
	key, err := sourcesKey(sources)
	return cache, filepath.Join(cache, key), err
}

// buildProject builds one Maven project. It builds in a directory of its own and renames that at the end, so a killed build
// leaves nothing that looks finished and two builds at once do no harm.
func buildProject(ctx context.Context, sources fs.FS, artifact string) (classPath string, err error) {
	building.Lock()
	defer building.Unlock()
	cache, done, err := place(sources)
	if err != nil {
		return "", err
	}
	classPath = filepath.Join(done, "target", artifact+"-1.jar") + string(os.PathListSeparator) + filepath.Join(done, "target", "lib") + "/*"
	if _, err := os.Stat(done); err == nil {
		return classPath, nil
	}
	if err := build(ctx, sources, cache, done); err != nil {
		return "", fmt.Errorf("build the Java programs: %w", err)
	}
	return classPath, nil
}

func build(ctx context.Context, sources fs.FS, cache, done string) error {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	stage, err := os.MkdirTemp(cache, "build-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(stage) }()
	if err := os.CopyFS(stage, sources); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, buildLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", filepath.Join(stage, "pom.xml"), "package")
	cmd.WaitDelay = 5 * time.Second
	// Maven's own JVM keeps its counters and scratch files out of the shared temporary directory.
	cmd.Env = append(os.Environ(), "MAVEN_OPTS="+os.Getenv("MAVEN_OPTS")+" -XX:-UsePerfData -Djava.io.tmpdir="+stage)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mvn: %w\n%s", err, out)
	}
	if err := os.Rename(stage, done); err != nil {
		if _, there := os.Stat(done); there != nil {
			return err
		}
	}
	return nil
}

// Command prepares a run of one of the programs, a class of package tandemmq. Logs, native libraries and RocksDB's own log
// go to the directory home; no file comes into the shared temporary directory.
func Command(ctx context.Context, classPath, home string, jvm []string, class string, words ...string) *exec.Cmd {
	args := append([]string{"-XX:-UsePerfData", "-Duser.home=" + home, "-Djava.io.tmpdir=" + home, "-cp", classPath}, jvm...)
	args = append(append(args, "tandemmq."+class), words...)
	cmd := exec.CommandContext(ctx, "java", args...)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// cacheDir is the place where this project keeps what it builds outside the work tree, as scripts/lib.sh has it.
func cacheDir() (string, error) {
	if dir := os.Getenv("TANDEMMQ_CACHE"); dir != "" {
		return filepath.Join(dir, "interop"), nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache directory: %w; set TANDEMMQ_CACHE", err)
	}
	return filepath.Join(dir, "tandemmq", "interop"), nil
}

// sourcesKey is a digest over names and contents of all sources.
func sourcesKey(sources fs.FS) (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(sources, path)
		fmt.Fprintf(sum, "%s\x00%d\x00", path, len(b))
		sum.Write(b)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil))[:16], err
}
