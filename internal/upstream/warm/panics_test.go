// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package warm

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/queue"
)

// TestLoadingPanics: a panic in the timer that keeps a model loaded affects only that run. The next
// run takes place, and the server is not left locked.
func TestLoadingPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hours, err := parseHours("00:00-23:59")
		if err != nil {
			t.Fatal(err)
		}
		var trouble atomic.Bool
		in := site(&Options{Every: caddy.Duration(time.Minute)}, "llama_cpp")
		in.Now = func() time.Time {
			if trouble.CompareAndSwap(true, false) {
				panic("of a test")
			}
			return time.Now()
		}
		b := &base{id: "b"}
		b.use(time.Now())
		x := &Server{of: servers(), queue: queue.New(queue.Limits{}), site: in, hours: hours, bases: map[string]*base{"b": b}}
		defer x.stop()
		panics := httpx.BackgroundPanics
		before := testkit.MetricValue(t, panics)
		x.back(nil, false) // sets the timer
		trouble.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := testkit.MetricValue(t, panics) - before; got != 1 || trouble.Load() {
			t.Fatalf("%v panics", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		x.mu.Lock()
		defer x.mu.Unlock()
		if len(x.due) != 1 {
			t.Errorf("%d bases are due a minute later", len(x.due))
		}
	})
}

// TestKeepingPanics: a panic while a base is written to disk, here of the logger of the error,
// affects only that file.
func TestKeepingPanics(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	in := site(&Options{Store: filepath.Join(file, "no folder")}, "mlx_lm")
	in.Log = zap.NewExample(zap.Hooks(func(zapcore.Entry) error { panic("of a test") }))
	x := server(t, servers(), queue.New(queue.Limits{Slots: 1}))
	x.site = in
	panics := httpx.BackgroundPanics
	before := testkit.MetricValue(t, panics)
	for i := range 2 {
		x.keep(prefixKey{byte(i)}, &base{id: string(rune('a' + i)), to: targetOf()}, time.Now())
		await(t, "the panic", func() bool { return testkit.MetricValue(t, panics) == before+float64(i+1) })
	}
	if !x.knows(prefixKey{0}) || !x.knows(prefixKey{1}) {
		t.Error("a base that is not on disk is forgotten")
	}
}
