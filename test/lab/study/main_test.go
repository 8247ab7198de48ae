// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// Recorded conversations.
const (
	traces = "../../../internal/cli/trial/testdata/traces"
	boats  = traces + "/ferry-22222222-p1.jsonl"
)

// studied returns the output of a study.
func studied(args ...string) (string, error) {
	var out strings.Builder
	err := study(context.Background(), args, &out)
	return out.String(), err
}

func TestSweep(t *testing.T) {
	path := t.TempDir() + "/f.svg"
	out, err := studied("-json", "-optimum", "-profile", "anthropic-5m,kv", "-frontier", path, "-risks", "0,1", traces)
	if err != nil {
		t.Fatal(err)
	}
	var f Frontier
	if err := json.Unmarshal([]byte(out), &f); err != nil {
		t.Fatal(err)
	}
	if len(f.Points) != 4 || len(f.References) != 4 || len(f.Optima) != 4 {
		t.Fatalf("%d points, %d references, %d optima", len(f.Points), len(f.References), len(f.Optima))
	}
	for i, want := range []struct {
		profile string
		risk    float64
	}{{"anthropic-5m", 0}, {"anthropic-5m", 1}, {"kv", 0}, {"kv", 1}} {
		if p := &f.Points[i]; p.Total.Profile != want.profile || p.Risk != want.risk ||
			p.Total.Policy != pipeline.CostAware || p.Total.Calls != 18 {
			t.Errorf("point %d: %+v", i, p.Total)
		}
	}
	drawn, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	testkit.WellFormedSVG(t, drawn)
	out, err = studied("-frontier", path, "-risks", "0", boats)
	if err != nil || !strings.Contains(out, "eager") || !strings.Contains(out, "risk") {
		t.Errorf("%v: %s", err, out)
	}
	for _, args := range [][]string{
		{"-frontier", path, "-risks", "0,x", boats},
		{"-frontier", path, "-risks", "", boats},
		{"-frontier", path, "-options", "[]", boats},
		{"-frontier", t.TempDir() + "/none/f.svg", "-risks", "0", boats},
		{"-frontier", path, "-profile", "none", boats},
		{"-policy", "bold", boats},
		{"-options", "{", boats},
		{"-folds-by", "owner", boats},
		{"-folds-by", "repo", "-models", "none", boats},
		{"-background", "-speed", "0", boats},
		{"missing"},
	} {
		if _, err := studied(args...); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

func TestFoldsCommand(t *testing.T) {
	out, err := studied("-folds", "2", "-fold", "-1", "-policy", "off", traces)
	inverse, err2 := studied("-folds", "2", "-fold", "1", "-policy", "off", traces)
	if n := strings.Count(out+inverse, "ferry-22222222 "); n == 0 || (err != nil && err2 != nil) {
		t.Errorf("%v, %v: %s%s", err, err2, out, inverse)
	}
}

// The folds are a partition, and each is the complement of the others.
func TestFolds(t *testing.T) {
	all := make([]*recording.Conversation, 40)
	for i := range all {
		all[i] = &recording.Conversation{Session: string(rune('a' + i))}
	}
	seen := map[*recording.Conversation]int{}
	for fold := 1; fold <= 4; fold++ {
		some, err := selected(all, 4, fold)
		if err != nil {
			t.Fatal(err)
		}
		others, err := selected(all, 4, -fold)
		if err != nil || len(some)+len(others) != len(all) {
			t.Errorf("fold %d: %d and %d, %v", fold, len(some), len(others), err)
		}
		for _, c := range some {
			seen[c]++
		}
	}
	for i, c := range all {
		if seen[c] != 1 {
			t.Errorf("conversation %d is in %d folds", i, seen[c])
		}
	}
	if recording.Fold("11111111-garden", 7) != 1 || recording.Fold("22222222-ferry", 7) != 3 ||
		recording.Fold("a", 1) != 1 {
		t.Error("a session has changed its fold")
	}
	for _, bad := range [][2]int{{1, 1}, {4, 0}, {4, 5}, {4, -5}, {-4, 1}} {
		if _, err := selected(all, bad[0], bad[1]); err == nil {
			t.Errorf("fold %d of %d: no error", bad[1], bad[0])
		}
	}
	if _, err := selected(all[:1], 4, recording.Fold(all[0].Session, 4)%4+1); err == nil {
		t.Error("an empty fold was taken")
	}
}
