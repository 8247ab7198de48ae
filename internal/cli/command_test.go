// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// Recorded conversations.
const (
	traces = "trial/testdata/traces"
	boats  = traces + "/ferry-22222222-p1.jsonl"
)

// command runs a subcommand and returns its output and its progress.
func command(args ...string) (string, string, error) {
	var out, progress bytes.Buffer
	c := Root()
	root := &cobra.Command{Use: c.Name, SilenceUsage: true, SilenceErrors: true}
	c.CobraFunc(root)
	root.SetOut(&out)
	root.SetErr(&progress)
	root.SetArgs(args)
	err := root.Execute()
	return out.String(), progress.String(), err
}

func TestCommand(t *testing.T) {
	run := func(args ...string) (string, string, error) { return command(append([]string{"replay"}, args...)...) }
	out, progress, err := run("--profile", "kv,openai", "--policy", "all", traces)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"gardener-11111111", "kv, eager", "worst:", "openai  cost_aware",
		"left every byte as it was",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	if !strings.Contains(progress, "replayed 36 of 36 requests") {
		t.Errorf("progress %q", progress)
	}
	out, _, err = run("--json", boats)
	if err != nil {
		t.Fatal(err)
	}
	var report trial.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Runs) != 1 ||
		report.Runs[0].Total.Policy != pipeline.CostAware {
		t.Errorf("%v: %s", err, out)
	}
	for _, args := range [][]string{
		{},
		{"--policy", "bold", boats},
		{"--profile", "none", boats},
		{"--options", "{", boats},
		{"missing"},
	} {
		if _, _, err := run(args...); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

func TestExplainCommand(t *testing.T) {
	path := t.TempDir() + "/a.svg"
	out, progress, err := command("explain", "--policy", "eager", "--svg", path, traces+"/gardener-11111111-p1.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "gardener-11111111, anthropic-5m, eager: cost") || !strings.Contains(progress, "requests") {
		t.Errorf("%s\n%s", out, progress)
	}
	drawn, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	testkit.WellFormedSVG(t, drawn)
	out, _, err = command("explain", "--json", boats)
	var tl trial.Timeline
	if err != nil || json.Unmarshal([]byte(out), &tl) != nil || len(tl.Steps) != 3 {
		t.Errorf("%v: %s", err, out)
	}
	for _, args := range [][]string{
		{},
		{traces},
		{"--policy", "all", boats},
		{"--profile", "kv,openai", boats},
		{"--options", "{", boats},
		{"--options", `{"prune":5}`, boats},
		{"--svg", t.TempDir() + "/none/a.svg", boats},
		{"missing"},
	} {
		if _, _, err := command(append([]string{"explain"}, args...)...); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

// TestPricesFlag: simulated providers and the handler use the prices of a file. An unreadable file
// is refused with the row.
func TestPricesFlag(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prices")
	write := func(price string) {
		t.Helper()
		text := `{"vendors": {"anthropic": {"families": {"claude-sonnet": {"claude-sonnet-4-6": {"prices": [` +
			price + `]}}}}}}`
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	total := func(args ...string) trial.Result {
		t.Helper()
		out, _, err := command(append(append([]string{"replay", "--json"}, args...), agentsFolder)...)
		var r trial.Report
		if err != nil || json.Unmarshal([]byte(out), &r) != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return r.Runs[0].Total
	}
	// If cache reads cost as much as processing, folding old results pays at once.
	write(`{"input": 3, "output": 15, "write": 3, "read": 3}`)
	list, custom := total(), total("--prices", file)
	if custom.BaseCost <= list.BaseCost {
		t.Errorf("the client's own bytes cost %v at prices without a cache, %v at list prices", custom.BaseCost,
			list.BaseCost)
	}
	if custom.Sent.Prompt() >= list.Sent.Prompt() {
		t.Errorf("the handler sent %d tokens at prices without a cache, %d at list prices", custom.Sent.Prompt(),
			list.Sent.Prompt())
	}
	if out, _, err := command("explain", "--json", "--prices", file, boats); err != nil || !json.Valid([]byte(out)) {
		t.Errorf("explain: %v: %s", err, out)
	}
	write(`{"input": "ten", "output": 15}`)
	for _, args := range [][]string{{"replay", boats}, {"explain", boats}, {"estimate", agentsFolder}} {
		if _, _, err := command(append(args, "--prices", file)...); err == nil ||
			!strings.Contains(err.Error(), "claude-sonnet-4-6: prices.input: string is not a float64") {
			t.Errorf("%v: %v", args, err)
		}
		if _, _, err := command(append(args, "--prices", file+"s")...); err == nil {
			t.Errorf("%v without the file passed", args)
		}
	}
}

func TestVersionCommand(t *testing.T) {
	out, _, err := command("version")
	if want := "llm_cache devel, Caddy "; err != nil || !strings.HasPrefix(out, want) {
		t.Errorf("got %q and error %v, want %q…", out, err, want)
	}
}
