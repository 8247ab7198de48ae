// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// BenchmarkSave writes 8,192 existing sessions again, 32 at a time: in the order of their first
// write, as a busy store does, or in random order.
func BenchmarkSave(b *testing.B) {
	const sessions, part = 8192, 32
	for _, size := range []int{700, 6000} {
		for _, order := range []string{"in order", "in any order"} {
			b.Run(fmt.Sprintf("%d bytes, %s", size, order), func(b *testing.B) {
				d, err := Open(Options{Path: filepath.Join(b.TempDir(), "sessions.db"), MaxBytes: 1 << 30, TTL: time.Hour})
				if err != nil {
					b.Fatal(err)
				}
				defer d.Close()
				records := make([]sessioncache.Record, sessions)
				for i := range records {
					r := &records[i]
					_, _ = rand.Read(r.Digest[:])
					r.Used, r.Snapshot, r.Answers = time.Now(), make([]byte, size), []sessioncache.Digest{r.Digest}
				}
				save := func() {
					if order == "in any order" {
						mathrand.Shuffle(sessions, func(i, j int) { records[i], records[j] = records[j], records[i] })
					}
					for some := range slices.Chunk(records, part) {
						if err := d.Save(b.Context(), some); err != nil {
							b.Fatal(err)
						}
					}
				}
				save()
				for b.Loop() {
					save()
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*sessions), "µs/session")
			})
		}
	}
}
