// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"testing"
)

// TestSources: each repository has an owner, a name, and a full commit hash, because servers accept
// no others. Each has some transcripts.
func TestSources(t *testing.T) {
	all, err := parse(sources)
	if err != nil {
		t.Fatal(err)
	}
	name, commit := regexp.MustCompile(`^[^/]+/[^/]+$`), regexp.MustCompile(`^[0-9a-f]{40}$`)
	n := 0
	for _, r := range all {
		if !name.MatchString(r.name) || !commit.MatchString(r.commit) || len(r.paths) == 0 {
			t.Errorf("%s at %q with %d transcripts", r.name, r.commit, len(r.paths))
		}
		n += len(r.paths)
	}
	if len(all) != 18 || n != 274 {
		t.Errorf("%d transcripts of %d repositories; docs/numbers/replay.md has other numbers", n, len(all))
	}
	for _, bad := range []string{"\ta path of nothing", "owner/name", "owner/name commit and more"} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
