// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import (
	"context"
	"math"
	"testing"
)

func open(t testing.TB, family string, o Options) *Model {
	t.Helper()
	m, err := Open(folder(family), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// TestLogits compares the encoder, with all kernels that this CPU can run, with ONNX Runtime's
// results for the same weights.
func TestLogits(t *testing.T) {
	cases := golden[[]struct {
		Family string
		IDs    []int32
		Logits []float32
	}](t, "logits.json.gz")
	best := kernel
	defer func() { kernel = best }()
	for _, kernel = range runnable() {
		for _, threads := range []int{1, 3} {
			for _, family := range families {
				m := open(t, family, Options{Threads: threads})
				for _, c := range cases {
					if c.Family != family {
						continue
					}
					tokens := make([]position, len(c.IDs))
					for i, id := range c.IDs {
						tokens[i] = position{id, m.encoder.config.firstPosition() + i}
					}
					got, err := m.encoder.logits(context.Background(), tokens)
					if err != nil {
						t.Fatal(err)
					}
					if d := distance(got, c.Logits); d > 1e-4 {
						t.Errorf("%s, %s, %d tokens, %d threads: logits differ by %g", kernel.Name, family, len(tokens), threads, d)
					}
				}
			}
		}
	}
}

func distance(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	d := 0.0
	for i := range a {
		// A NaN counts as different.
		if e := math.Abs(float64(a[i] - b[i])); !(e <= d) {
			d = e
		}
	}
	return d
}
