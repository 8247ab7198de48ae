// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Command fit fits the need model on recorded conversations:
//
//	go -C test run ./lab/fit <folder>...
//
// It writes pipeline/weights.go, the models of test/lab/fit/folds.json, each fitted without the
// repositories of some owners, and docs/numbers/need-model.md with their accuracy on unseen
// conversations. The output is deterministic.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
)

func main() {
	root := flag.String("root", ".", "folder of the module, to write into")
	flag.Parse()
	if err := run(*root, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(root string, folders []string) error {
	conversations, err := recording.Find(folders...)
	if err != nil {
		return err
	}
	played, err := playAll(conversations)
	if err != nil {
		return err
	}
	f := fitAll(conversations, played)
	files := map[string][]byte{"../docs/numbers/need-model.md": f.card(), "../pipeline/weights.go": source(f.whole)}
	if files["lab/fit/folds.json"], err = f.json(); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(root, name), content, 0o644); err != nil { //nolint:gosec // all may read them
			return err
		}
	}
	return nil
}

// playAll plays conversations concurrently, and prints its progress.
func playAll(conversations []*recording.Conversation) ([][]sample, error) {
	out, errs := make([][]sample, len(conversations)), make([]error, len(conversations))
	var next, done atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(conversations); i = int(next.Add(1)) - 1 {
				out[i], errs[i] = play(conversations[i])
				fmt.Fprintf(os.Stderr, "\rplayed %d of %d conversations", done.Add(1), len(conversations))
			}
		})
	}
	workers.Wait()
	fmt.Fprintln(os.Stderr)
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
