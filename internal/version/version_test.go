// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	caddy := &debug.Module{Path: "github.com/caddyserver/caddy/v2", Version: "v2.11.9"}
	for name, c := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"without build info": {nil, "devel"},
		"in its own folder":  {&debug.BuildInfo{Main: debug.Module{Path: module, Version: "(devel)"}}, "devel"},
		"of a tag":           {&debug.BuildInfo{Main: debug.Module{Path: module, Version: "v0.1.0"}}, "v0.1.0"},
		"by xcaddy": {&debug.BuildInfo{
			Main: debug.Module{Path: "caddy", Version: "(devel)"},
			Deps: []*debug.Module{caddy, {Path: module, Version: "v0.1.0"}},
		}, "v0.1.0"},
		"of a release": {&debug.BuildInfo{Deps: []*debug.Module{{
			Path: module, Version: "v0.1.0", Replace: &debug.Module{Path: "..", Version: "(devel)"},
		}}}, "v0.1.0"},
		"by xcaddy from a folder": {&debug.BuildInfo{Deps: []*debug.Module{caddy, {
			Path: module, Version: "v0.0.0-00010101000000-000000000000", Replace: &debug.Module{Path: "/src", Version: "(devel)"},
		}}}, "devel"},
		"by xcaddy from a fork": {&debug.BuildInfo{Deps: []*debug.Module{{
			Path: module, Version: "v0.1.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v0.1.1"},
		}}}, "v0.1.1"},
		"of another program": {&debug.BuildInfo{Deps: []*debug.Module{caddy}}, "devel"},
	} {
		if got := of(c.info); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestMajor(t *testing.T) {
	for format, want := range map[int]int{0: 0, 1: 1, 2: 2, 1001: 1, 1999: 1, 2000: 2, 2001: 2} {
		if got := Major(format); got != want {
			t.Errorf("Major(%d): got %d, want %d", format, got, want)
		}
	}
}
