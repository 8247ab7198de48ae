// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package llmcache

import (
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// room is a folder with all below it, without itself if its path ends in a slash.
type room struct {
	path string
	may  []string
	free bool
}

// rooms says which rooms of this module a room may import: those within one
// may import each other. What is not listed is at the top and may
// import all; of rooms in one another the first counts. free: it does without Caddy and net/http's handlers, so that it can be
// read, tested and fuzzed alone.
var rooms = []room{
	{"wire/framing", nil, true},
	{"wire/reuse", nil, true},
	{"wire/rawjson", []string{"wire/framing", "wire/reuse"}, true},
	{"wire/", []string{"translate", "wire"}, true}, // a folder a format
	{"wire", nil, true},
	{"translate", []string{"wire"}, true},
	{"cachemodel", []string{"wire"}, true},
	{"lru", nil, true},
	{"barrier", nil, true},
	{"transcript", []string{"wire"}, true},
	{"sessioncache", []string{"lru", "wire"}, true},
	{"pipeline/outlook", []string{"cachemodel", "pipeline/history", "pipeline/planner", "sessioncache", "wire"}, true},
	{"pipeline", []string{"wire", "cachemodel", "sessioncache"}, true},
	{"keepalive/pinger", []string{"audit", "errand", "keepalive", "layer", "metric", "option", "pipeline", "sessioncache", "wire"}, false},
	{"keepalive", nil, true},
	{"audit", nil, true},
	{"internal/subcommand", nil, false},
	{"report", []string{"app", "audit", "internal/subcommand"}, false},
	{"page", []string{"audit"}, true},
	{"allowance", nil, true},
	{"box/queue", nil, true},
	{"box/overlay", []string{"lru", "wire"}, true},
	{"metric", nil, true},
	{"option", nil, false},
	{"tenant", []string{"sessioncache", "wire"}, false},
	{"layer", []string{"metric", "translate", "wire"}, false},
	{"upstream", []string{"cachemodel", "layer", "metric", "option", "translate", "wire"}, false},
	{"signers", []string{"upstream"}, false},
	{"errand", []string{"audit", "keepalive", "layer", "sessioncache", "tenant", "upstream", "wire"}, false},
	{"hold/relay", []string{"hold", "layer", "option", "wire"}, false},
	{"hold/socket", []string{"hold", "layer", "metric", "wire"}, false},
	{"hold/origin", []string{"hold", "layer", "lru", "metric", "option", "sessioncache", "tenant", "translate", "wire"}, false},
	{"hold/letta", []string{"hold", "layer", "lru", "metric", "option", "sessioncache", "tenant", "translate", "upstream", "wire"}, false},
	{"hold", []string{"lru", "metric", "sessioncache", "wire"}, true}, // hold/edge and hold/delta, too
	{"box/warm", []string{
		"audit", "box", "errand", "layer", "metric", "option", "sessioncache", "tenant", "translate", "upstream", "wire",
	}, false},
	{"box/idlefold", []string{"audit", "box/queue", "errand", "layer", "metric", "option", "pipeline", "sessioncache", "upstream", "wire"}, false},
	{"box", []string{"layer", "metric", "option", "sessioncache", "translate", "upstream", "wire"}, false},
	{"app", []string{"allowance", "audit", "barrier", "box", "cachemodel", "errand", "hold", "keepalive", "layer", "lru", "metric", "option", "page", "sessioncache", "tenant", "wire"}, false},
	{"lingua", nil, true},
	{"compressor", []string{"internal/subcommand", "layer", "lingua", "metric", "option", "pipeline", "sessioncache", "wire"}, false},
	{"handler/routes", nil, false},
	{"handler/tracing", []string{"audit", "pipeline", "tenant", "upstream", "wire"}, false},
	{"handler/kept", []string{"cachemodel", "layer", "translate", "upstream", "wire"}, false},
	{"handler/intercept", []string{"layer", "metric", "pipeline", "sessioncache", "wire"}, false},
	{"handler", []string{
		"allowance", "app", "audit", "barrier", "box", "cachemodel", "compressor", "errand", "hold", "keepalive/pinger", "layer", "lru", "metric", "page", "pipeline", "sessioncache", "tenant",
		"translate", "upstream", "wire",
	}, false},
}

const module = "github.com/caddy-llm-cache/caddy-llm-cache/"

// TestRooms: imports run one way, down the list.
func TestRooms(t *testing.T) {
	seen := map[string]bool{}
	for own, imports := range imported(t) {
		i := slices.IndexFunc(rooms, func(r room) bool { return within(own, r.path) })
		if i < 0 {
			continue
		}
		r := rooms[i]
		seen[r.path] = true
		for path := range imports {
			if r.free && strings.HasPrefix(path, "github.com/caddyserver/caddy/") {
				t.Errorf("%s imports Caddy", own)
			}
			other, ok := strings.CutPrefix(path, module)
			if ok && !within(other, r.path) && !slices.ContainsFunc(r.may, func(may string) bool { return within(other, may) }) {
				t.Errorf("%s imports %s, which stands above it", own, other)
			}
		}
	}
	for _, r := range rooms {
		if !seen[r.path] {
			t.Errorf("there is no room %s", r.path)
		}
	}
}

// imported returns what the packages of this module import, by their folders. Tests do not count.
func imported(t *testing.T) map[string]map[string]bool {
	t.Helper()
	found := map[string]map[string]bool{}
	for path := range sources(t) {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		own := filepath.ToSlash(filepath.Dir(path))
		if found[own] == nil {
			found[own] = map[string]bool{}
		}
		for _, spec := range file.Imports {
			found[own][strings.Trim(spec.Path.Value, `"`)] = true
		}
	}
	return found
}

// sources are the files of this module that are no tests.
func sources(t *testing.T) iter.Seq[string] {
	t.Helper()
	return func(yield func(string) bool) {
		if err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case e.IsDir():
				if _, err := os.Stat(filepath.Join(path, "go.mod")); path != "." && (err == nil || strings.HasPrefix(e.Name(), ".") || e.Name() == "testdata") {
					return fs.SkipDir
				}
			case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && !yield(path):
				return fs.SkipAll
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// within reports whether a package is in a room.
func within(path, room string) bool {
	return path == room || strings.HasPrefix(path, strings.TrimSuffix(room, "/")+"/")
}
