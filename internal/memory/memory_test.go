// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"errors"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

func TestParts(t *testing.T) {
	var percent, bytes int64
	for _, p := range Parts {
		percent += p.Percent
		bytes += p.Of(Min)
	}
	if percent != 100 || bytes > Min {
		t.Errorf("the parts are %d %% and %d bytes, want 100 %% and at most %d", percent, bytes, Min)
	}
	if n := Sessions.Of(Min); n < 1<<20 {
		t.Errorf("sessions have %d bytes of the smallest budget, want at least 1 MiB", n)
	}
}

func TestDefault(t *testing.T) {
	const gib = 1 << 30
	knows := func(n uint64) memlimit.Provider { return func() (uint64, error) { return n, nil } }
	unknown := func() (uint64, error) { return 0, errors.New("no cgroup") }
	for _, x := range []struct {
		name      string
		providers []memlimit.Provider
		want      int64
	}{
		{"nothing is known", []memlimit.Provider{unknown, unknown}, maxDefault},
		{"a machine", []memlimit.Provider{unknown, knows(8 * gib)}, 2 * gib},
		{"a container on it", []memlimit.Provider{knows(2 * gib), knows(8 * gib)}, gib / 2},
		{"a container without a limit", []memlimit.Provider{knows(1 << 63), knows(8 * gib)}, 2 * gib},
		{"a large machine", []memlimit.Provider{knows(512 * gib)}, maxDefault},
		{"a small machine", []memlimit.Provider{knows(gib / 2)}, minDefault},
	} {
		if got := defaultOf(x.providers...); got != x.want {
			t.Errorf("%s: the budget is %d, want %d", x.name, got, x.want)
		}
	}
}

func TestValidate(t *testing.T) {
	for n, want := range map[int64]string{
		0: "", Min: "", Max: "",
		Min - 1: "memory must be from 4MiB to 1TiB, got 4194303 bytes", Max +
			1: "memory must be from 4MiB to 1TiB, got 1099511627777 bytes", -1: "memory must be from 4MiB to 1TiB, got -1 bytes",
	} {
		got := ""
		if err := Validate(n); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
