// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package app

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/audit"
)

// The key that tenants are hashed with outlives the process.
func TestAuditKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "audit.key")
	a, err := auditKey(path)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := auditKey(path); err != nil || a != b {
		t.Errorf("another key, %v", err)
	}
	if c, err := auditKey(t.TempDir()); err == nil || c == a || c == [32]byte{} {
		t.Errorf("a folder as a key: %v", err)
	}
}

// void is an audit store that keeps nothing.
type void struct{}

func (void) Write(context.Context, []*audit.Record) error    { return nil }
func (void) Prune(context.Context, time.Time) (int64, error) { return 0, nil }
func (void) Close() error                                    { return nil }

func testSink(tb testing.TB) *Sink {
	tb.Helper()
	tb.Setenv("XDG_DATA_HOME", tb.TempDir())
	s := NewSink(func() (audit.Store, error) { return void{}, nil }, audit.Options{}, false, zap.NewNop())
	tb.Cleanup(s.close)
	return s
}

// A request that comes when its sink is closed is counted, not forgotten.
func TestLateRecord(t *testing.T) {
	s := testSink(t)
	s.Unpin()
	for s.pins.Load() != 0 {
		time.Sleep(time.Millisecond)
	}
	before := auditCounters.Dropped.Load()
	if s.Pinned() != nil || auditCounters.Dropped.Load() != before+1 {
		t.Error("a record was lost without a trace")
	}
}
