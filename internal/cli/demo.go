// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

// Demo shows the effect of llm_cache: a scripted conversation goes through a real Caddy to a
// simulated provider, and once more directly to another one.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/simulator"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/figure"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/subcommand"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// DemoCommand returns the subcommand `demo` of `caddy llm-cache`.
func DemoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Shows on a conversation made up for it what is saved, without a key and without a model",
		Long: `
Starts Caddy with llm_cache in this process, in front of a simulated provider, and
sends a conversation of a coding agent through it, request by request: three tasks,
in which files are read, one is edited, and commands are run. The same requests go straight to
another simulated provider. What both would bill is printed as it happens.

Nothing leaves the machine. The conversation is made up and regular; what your own
would save is told by estimate.
`,
		Example: "  caddy llm-cache demo",
		Args:    cobra.NoArgs,
		RunE: subcommand.Run(func(cmd *cobra.Command, _ caddycmd.Flags) error {
			_, err := RunDemo(cmd.Context(), cmd.OutOrStdout())
			return err
		}),
	}
}

const model = "claude-sonnet-4-6"

// DemoSum is the result of the conversation.
type DemoSum struct {
	// Requests counts the requests.
	Requests int
	// Client and Actual are the costs in dollars of the client's own bytes and of the requests as sent.
	Client, Actual float64
}

type provider struct {
	simulator.Handler
	rules pricing.Rules

	mu    sync.Mutex
	last  wire.Usage
	spent float64
}

func newProvider() *provider {
	rules := pricing.Lookup("anthropic", model, pricing.Collected())
	p := &provider{rules: rules}
	p.Cache = pricing.NewSimulator(pricing.SimulatorConfig{Rules: func(string, time.Time) pricing.Rules { return rules }})
	p.Hooks.Done = func(_ context.Context, u wire.Usage, refused *pricing.APIError) {
		p.mu.Lock()
		defer p.mu.Unlock()
		u.Output = 0 // equal on both sides
		p.last, p.spent = u, p.spent+p.rules.Dollars(u)
	}
	p.Hooks.Answer = func(context.Context, *wire.View) *simulator.Answer {
		return &simulator.Answer{Blocks: []simulator.Block{{Type: simulator.Text, Text: "Understood."}}}
	}
	return p
}

func (p *provider) totals() (wire.Usage, float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last, p.spent
}

// RunDemo runs the conversation and prints its costs.
func RunDemo(ctx context.Context, w io.Writer) (DemoSum, error) {
	straight, behind := newProvider(), newProvider()
	one, err := serveDemo(straight)
	if err != nil {
		return DemoSum{}, err
	}
	defer one.Close()
	other, err := serveDemo(behind)
	if err != nil {
		return DemoSum{}, err
	}
	defer other.Close()
	site, err := site(other.Addr().String())
	if err != nil {
		return DemoSum{}, err
	}
	defer func() { _ = caddy.Stop() }()

	fmt.Fprintf(w, "Caddy with llm_cache listens on %s, a simulated provider behind it. Costs are of prompts to %s.\n\n",
		site, model)
	// Rows are printed as they happen, so their widths are fixed.
	fmt.Fprintln(w, "   request    prompt      sent  read from cache  client's own  with llm_cache     saved")
	sum := DemoSum{}
	for _, body := range conversation() {
		if err := post(ctx, "http://"+one.Addr().String(), body); err != nil {
			return sum, err
		}
		if err := post(ctx, "http://"+site, body); err != nil {
			return sum, err
		}
		direct, client := straight.totals()
		sent, actual := behind.totals()
		sum = DemoSum{sum.Requests + 1, client, actual}
		if _, err := fmt.Fprintf(w, "%10d%10d%10d%17d%14s%16s%10s\n", sum.Requests, direct.Prompt(), sent.Prompt(), sent.Read,
			figure.Dollars(client), figure.Dollars(actual), figure.Percent(1-actual/client)); err != nil {
			return sum, err
		}
	}
	_, err = fmt.Fprintf(w, "\n%d requests cost %s instead of %s: %s saved.\nNow your own: caddy llm-cache estimate\n",
		sum.Requests, figure.Dollars(sum.Actual), figure.Dollars(sum.Client), figure.Percent(1-sum.Actual/sum.Client))
	return sum, err
}

func serveDemo(h http.Handler) (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	go func() { _ = (&http.Server{Handler: h, ReadHeaderTimeout: time.Minute}).Serve(l) }()
	return l, nil
}

func site(upstream string) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("demo: %w", err)
	}
	address := l.Addr().String()
	_ = l.Close()
	config := fmt.Sprintf(`{"admin":{"disabled":true,"config":{"persist":false}},"logging":{"logs":{"default":{"level":"ERROR"}}},"apps":{"http":{"servers":{"demo":{"listen":[%q],"automatic_https":{"disable":true},
		"routes":[{"handle":[{"handler":"llm_cache","upstream":{"preset":"anthropic"}},{"handler":"reverse_proxy","upstreams":[{"dial":%q}]}]}]}}}}}`, address, upstream)
	if err := caddy.Load([]byte(config), true); err != nil {
		return "", fmt.Errorf("demo: %w", err)
	}
	return address, nil
}

func post(ctx context.Context, url string, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/messages", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Api-Key", "demo")
	r.Header.Set("Anthropic-Version", "2023-06-01")
	r.Header.Set("X-Claude-Code-Session-Id", "00000000-0000-4000-8000-000000000000")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", answer.StatusCode, said)
	}
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	return nil
}

var demoFiles = []string{"config", "pool", "handler", "query"}

func text(s string) map[string]any { return map[string]any{"type": "text", "text": s} }

// conversation returns the bodies of all requests of three tasks.
func conversation() [][]byte {
	var bodies [][]byte
	var messages []map[string]any
	say := func(role string, blocks ...map[string]any) {
		messages = append(messages, map[string]any{"role": role, "content": blocks})
	}
	ask := func() { bodies = append(bodies, body(messages)) }
	calls := 0
	use := func(said, tool string, input map[string]any, result string) {
		calls++
		id := fmt.Sprintf("toolu_demo%02d", calls)
		say("assistant", text(said), map[string]any{"type": "tool_use", "id": id, "name": tool, "input": input})
		say("user", map[string]any{"type": "tool_result", "tool_use_id": id, "content": result})
		ask()
	}
	for task, prompt := range []string{
		"Requests time out when the database is slow. Find out why and mend it.",
		"Add a test for that.", "Now the same for the worker, please.",
	} {
		if task > 0 {
			say("assistant", text("Done: the change is in, and the tests pass."))
		}
		say("user", text(prompt))
		ask()
		// In each task the agent runs the tests, searches, reads four files, edits one, and runs the tests again.
		part := []string{"server", "store", "worker"}[task]
		use("The tests first.", "Bash", map[string]any{"command": "go test ./... -v"}, tests(120))
		use("Who calls it?", "Bash", map[string]any{"command": "grep -rn compute internal/" + part}, hits(part, 40))
		for _, file := range demoFiles {
			name := fmt.Sprintf("internal/%s/%s.go", part, file)
			use("Let me look at "+name+".", "Read", map[string]any{"file_path": name}, source(name, 120))
		}
		name := "internal/" + part + "/pool.go"
		use("The limit is missing here.", "Edit", map[string]any{
			"file_path": name, "old_string": line(name, 20),
			"new_string": line(name, 20) + " // bounded",
		}, "The file "+name+" has been updated.")
		use("The tests now.", "Bash", map[string]any{"command": "go test ./... -v"}, tests(120))
	}
	return bodies
}

func line(name string, i int) string {
	return fmt.Sprintf("\tvalue%d := compute(%q, %d) + offset[%d]", i, name, i*7919%1000, i)
}

func source(name string, lines int) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "package demo // %s\n\nfunc main() {\n", name)
	for i := range lines {
		b.WriteString(line(name, i) + "\n")
	}
	b.WriteString("}\n")
	return b.String()
}

func hits(part string, lines int) string {
	var b bytes.Buffer
	for _, file := range demoFiles {
		name := fmt.Sprintf("internal/%s/%s.go", part, file)
		for i := range lines {
			fmt.Fprintf(&b, "%s:%d:%s\n", name, i+4, line(name, i))
		}
	}
	return b.String()
}

func tests(n int) string {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "=== RUN   TestCase%d\n--- PASS: TestCase%d (0.00s)\n", i, i)
	}
	b.WriteString("PASS\nok  \tdemo/internal\t0.412s\n")
	return b.String()
}

// body returns a request like those of agents.
func body(messages []map[string]any) []byte {
	marker := map[string]any{"type": "ephemeral"}
	last := messages[len(messages)-1]
	blocks := last["content"].([]map[string]any)
	marked := maps.Clone(blocks[len(blocks)-1])
	// Agents mark the system prompt and the last block.
	marked["cache_control"] = marker
	all := append([]map[string]any(nil), messages[:len(messages)-1]...)
	all = append(all, map[string]any{
		"role":    last["role"],
		"content": append(append([]map[string]any(nil), blocks[:len(blocks)-1]...), marked),
	})
	names := []string{"Bash", "Edit", "Read"}
	tools := make([]map[string]any, 0, len(names))
	for _, name := range names {
		tools = append(tools, map[string]any{
			"name": name, "description": name + " of the demo.",
			"input_schema": map[string]any{"type": "object"},
		})
	}
	system := text("You are a coding agent. " + source("instructions", 120))
	system["cache_control"] = marker
	raw, err := json.Marshal(map[string]any{
		"model": model, "max_tokens": 1024, "system": []any{system}, "tools": tools,
		"messages": all,
	})
	if err != nil {
		panic(err) // all values are literals
	}
	return raw
}
