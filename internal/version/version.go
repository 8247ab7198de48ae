// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package version tells the version of llm_cache in the running program.
package version

import (
	"runtime/debug"
	"strings"
	"sync"
)

const module = "github.com/caddy-llm-cache/caddy-llm-cache"

// unreleased is the version of a program that was built from a folder.
const unreleased = "devel"

// String returns the version of llm_cache, such as v0.1.0 or the pseudo-version of a commit; devel if
// Go knows none.
var String = sync.OnceValue(func() string {
	info, _ := debug.ReadBuildInfo()
	return of(info)
})

// Agent returns the User-Agent of requests that no client has sent.
func Agent() string { return "llm_cache/" + strings.TrimPrefix(String(), "v") }

// Major returns the major part of a stored format's number: 1 is 1.0, 1001 is 1.1, and 2000 is 2.0. A program
// reads all minor versions of its own major version, skips unknown fields, and does not change the number.
func Major(format int) int {
	if format < 1000 {
		return format
	}
	return format / 1000
}

func of(info *debug.BuildInfo) string {
	if info == nil {
		return unreleased
	}
	// The module is the main one in a program of its own folder, and a dependency in one of xcaddy.
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path != module {
			continue
		}
		version := m.Version
		if r := m.Replace; r != nil && strings.HasPrefix(r.Version, "v") {
			version = r.Version // a fork; a folder has the version (devel)
		}
		// A pseudo-version without a time was required for a folder only.
		if strings.HasPrefix(version, "v") && !strings.HasPrefix(version, "v0.0.0-00010101") {
			return version
		}
		return unreleased
	}
	return unreleased
}
