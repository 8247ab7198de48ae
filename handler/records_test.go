// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
	"net/http"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// void is an audit store that keeps nothing.
type void struct{}

func (void) Write(context.Context, []*audit.Record) error    { return nil }
func (void) Prune(context.Context, time.Time) (int64, error) { return 0, nil }
func (void) Close() error                                    { return nil }

func testSink(tb testing.TB) *app.Sink {
	tb.Helper()
	tb.Setenv("XDG_DATA_HOME", tb.TempDir())
	s := app.NewSink(shared.Process, func() (audit.Store, error) { return void{}, nil }, audit.Options{}, false,
		zap.NewNop())
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// BenchmarkAudit measures what a record adds to a request: the same with and
// without it.
func BenchmarkAudit(b *testing.B) {
	for _, size := range []int{2 << 10, 200 << 10, 1 << 20} {
		bodies := growing(size, 16)
		for _, name := range []string{"off", "on"} {
			h := attached(b, pipeline.Options{Policy: pipeline.CostAware})
			if name == "on" {
				h.site.records.sink = testSink(b)
			}
			b.Run(name+"/"+byteSize(size), func(b *testing.B) {
				serve := func(i int) {
					if err := h.ServeHTTP(&sink{http.Header{}}, request(bodies[i], "s"), endpoint); err != nil {
						b.Fatal(err)
					}
				}
				serve(14)
				b.ReportAllocs()
				for b.Loop() {
					serve(15)
				}
			})
		}
	}
}

// BenchmarkRecord measures the record alone, from its beginning to the queue.
func BenchmarkRecord(b *testing.B) {
	h := attached(b, pipeline.Options{Policy: pipeline.CostAware})
	h.site.records.sink = testSink(b)
	for _, size := range []int{2 << 10, 200 << 10, 1 << 20} {
		body := growing(size, 2)[1]
		b.Run(byteSize(size), func(b *testing.B) {
			r := request(body, "s")
			x := prepared(b, h, r, body)
			x.status, x.turn = http.StatusOK, new(wire.Turn)
			b.ReportAllocs()
			for b.Loop() {
				x.open()
				x.report(outcomeCompleted)
			}
		})
	}
}

func byteSize(n int) string {
	if n >= 1<<20 {
		return "1MB"
	}
	return map[int]string{2 << 10: "2KB", 200 << 10: "200KB"}[n]
}
