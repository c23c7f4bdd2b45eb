//go:build interop

package interop

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// buildLimit bounds the Maven run; the first one on a machine downloads about 75 MB.
const buildLimit = 8 * time.Minute

// javaProgram is StoreCheck, built.
type javaProgram struct{ classPath string }

// buildStoreCheck returns the program for the sources in java/, building it unless the cache has it. It builds in a
// directory of its own and renames that at the end, so a killed build leaves nothing that looks finished and two builds at
// once do no harm.
func buildStoreCheck() (*javaProgram, error) {
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	key, err := sourcesKey("java")
	if err != nil {
		return nil, fmt.Errorf("build StoreCheck: %w", err)
	}
	done := filepath.Join(cache, key)
	program := &javaProgram{classPath: filepath.Join(done, "target", "storecheck-1.jar") + string(os.PathListSeparator) +
		filepath.Join(done, "target", "lib") + "/*"}
	if _, err := os.Stat(done); err == nil {
		return program, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, fmt.Errorf("build StoreCheck: %w", err)
	}
	stage, err := os.MkdirTemp(cache, "build-")
	if err != nil {
		return nil, fmt.Errorf("build StoreCheck: %w", err)
	}
	defer func() { _ = os.RemoveAll(stage) }()
	if err := os.CopyFS(stage, os.DirFS("java")); err != nil {
		return nil, fmt.Errorf("build StoreCheck: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", filepath.Join(stage, "pom.xml"), "package")
	cmd.WaitDelay = 5 * time.Second
	// Maven's own JVM keeps its counters and scratch files out of the shared temporary directory.
	cmd.Env = append(os.Environ(), "MAVEN_OPTS="+os.Getenv("MAVEN_OPTS")+" -XX:-UsePerfData -Djava.io.tmpdir="+stage)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build StoreCheck with mvn: %w\n%s", err, out)
	}
	if err := os.Rename(stage, done); err != nil {
		if _, there := os.Stat(done); there != nil {
			return nil, fmt.Errorf("build StoreCheck: %w", err)
		}
	}
	return program, nil
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

// sourcesKey is a digest over names and contents of everything below dir.
func sourcesKey(dir string) (string, error) {
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		fmt.Fprintf(sum, "%s\x00%d\x00", strings.TrimPrefix(path, dir), len(b))
		sum.Write(b)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil))[:16], err
}

// lastBytes is the end of a long output.
func lastBytes(b *bytes.Buffer, n int) string {
	return string(b.Bytes()[max(0, b.Len()-n):])
}
