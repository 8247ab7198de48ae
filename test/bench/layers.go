// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/caddy"
	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/conversation"
)

// errLayer says that the measured layer is inactive.
var errLayer = errors.New("the layer is not in force")

// layer is an optional function of llm_cache.
type layer struct {
	name    string
	options string // of llm_cache
	proxy   string // of reverse_proxy
	least   bool   // the command ./bench/least instead of llm_cache
	edits   bool
	origin  bool // before a second Caddy, its origin
	inForce func(context.Context, *upstream, *target) error
}

// crew are layers compared with the same bare Caddy, or with two in a row.
type crew struct {
	shape  conversation.Shape
	twice  bool
	layers []layer
}

const (
	// expanding declares the expand tool for conversations of any size.
	expanding = "policy %s\n\t\texpand on"
	retaining = "policy %s\n\t\tretain origin"
	// buffering makes reverse_proxy read each body whole: the least cost of a handler that looks at bodies.
	buffering = "request_buffers 64MiB"
)

// crews returns the layers under a policy.
func crews(policy string) []crew {
	under := func(options string) string { return fmt.Sprintf(options, policy) }
	return []crew{
		{conversation.Claude, false, []layer{
			{name: policy, options: under("policy %s"), edits: true, inForce: plain},
			{name: "policy off", options: "policy off", inForce: unedited},
			{name: "least handler", least: true, inForce: unedited},
			{name: "bodies buffered by reverse_proxy", proxy: buffering, inForce: unedited},
			{name: "expand", options: under(expanding), edits: true, inForce: declares},
		}},
		{conversation.Chat, false, []layer{
			{name: policy, options: under("policy %s"), edits: true, inForce: plain},
			{
				name: "translation to Messages", options: under("policy %s\n\t\tupstream anthropic"), edits: true,
				inForce: translates,
			},
			{name: "overlay of mlx_lm", options: under("policy %s\n\t\tupstream mlx_lm"), edits: true, inForce: overlays},
		}},
		{conversation.Claude, true, []layer{
			{name: "edge and origin", options: under(retaining), edits: true, origin: true, inForce: retains},
		}},
	}
}

// layers measures known requests through layers that are off by default, and through the policy
// alone, like the cost and throughput tables. For two Caddys in a row, the processor times of both
// count.
func (b *bench) layers(ctx context.Context) error {
	heading(fmt.Sprintf("Layers: one request at a time, and %d connections", connections),
		"traffic", "Caddy", "CPU, ms", "added CPU, ms", "requests/s", "ratio to bare", "Caddy's processor, µs",
		"ratio to bare")
	b.leastBinary = filepath.Join(b.dir, "least")
	if err := caddy.BuildCommand(ctx, ".", "./bench/least", b.leastBinary); err != nil {
		return err
	}
	for i, c := range crews(b.policies[0]) {
		if err := b.crew(ctx, &c, filepath.Join(b.dir, fmt.Sprint("layers ", i))); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) crew(ctx context.Context, c *crew, dir string) error {
	loads := slices.DeleteFunc(slices.Clone(b.loads), func(l load) bool { return l.shape != c.shape })
	if len(loads) == 0 {
		return nil // left out by -traffic
	}
	targets := make([]*target, 0, 1+len(c.layers))
	for i, l := range append([]layer{{name: "bare"}}, c.layers...) {
		t, err := b.startLayer(ctx, &l, c.twice, filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			return err
		}
		defer t.stop()
		targets = append(targets, t)
	}
	for i := range loads {
		l := &loads[i]
		sums, err := b.costs(ctx, l, targets, nil)
		if err != nil {
			return err
		}
		lanes, err := b.run(ctx, l, targets, fairTurns)
		if err != nil {
			return err
		}
		for j, t := range targets {
			added, ratio, more := "", "", ""
			if j > 0 {
				added = sums[j].added(&sums[0])
				ratio, more = within(ratios(lanes[j].rates, lanes[0].rates)), within(ratios(lanes[j].costs, lanes[0].costs))
			}
			row(l.name, t.name, ms(median(sums[j].known)), added, fmt.Sprintf("%.0f", median(lanes[j].rates)), ratio,
				fmt.Sprintf("%.0f", median(lanes[j].costs)), more)
		}
	}
	if b.profiles != "" && !c.twice { // shows the differences between layers
		p := *b
		p.targets, p.loads = targets, loads
		if err := p.profile(ctx); err != nil {
			return err
		}
	}
	for j := range c.layers { // last, because an origin needs requests first
		if err := c.layers[j].inForce(ctx, b.upstream, targets[j+1]); err != nil {
			return fmt.Errorf("%s: %w", c.layers[j].name, err)
		}
	}
	return nil
}

// startLayer starts a Caddy with a layer, or a bare one for a layer without options. With twice set
// it is in front of a second Caddy.
func (b *bench) startLayer(ctx context.Context, l *layer, twice bool, dir string) (*target, error) {
	if !twice {
		return b.startLayerAt(ctx, l, dir, b.upstream.addr)
	}
	directive := ""
	if l.origin {
		directive = "llm_cache_origin"
	}
	second, err := startCaddy(ctx, b.binary, filepath.Join(dir, "behind"), l.name+", behind", directive, "",
		b.upstream.addr)
	if err != nil {
		return nil, err
	}
	first, err := b.startLayerAt(ctx, l, dir, second.addr)
	if err != nil {
		second.stop()
		return nil, err
	}
	if first.behind = second; l.options == "" {
		first.name += ", twice"
	}
	return first, nil
}

func (b *bench) startLayerAt(ctx context.Context, l *layer, dir, upstream string) (*target, error) {
	binary, directive := b.binary, ""
	if l.least {
		binary, directive = b.leastBinary, "least"
	}
	if l.options != "" {
		directive = "llm_cache {\n\t\t" + l.options + "\n\t}"
	}
	if l.proxy != "" {
		upstream += " {\n\t\t" + l.proxy + "\n\t}"
	}
	t, err := startCaddy(ctx, binary, dir, l.name, directive, "", upstream)
	if err == nil {
		t.edits = l.edits
	}
	return t, err
}

// proofChat is a prompt that a local server gets with its content as a plain text. proofClaude has
// tools, to which a layer may add one.
const (
	proofChat = `{"model":"gpt-5.4","messages":[{"role":"user","content":[{"type":"text","text":"Hello"}]}],` +
		`"stream":true}`
	proofClaude = `{"model":"claude-opus-4-6","max_tokens":100,"messages":[{"role":"user","content":"Hello"}],` +
		`"tools":[{"name":"Read","description":"Reads a file.","input_schema":{"type":"object"}}],"stream":true}`
)

// reaches sends a request and returns it as it reached the model.
func reaches(u *upstream, t *target, shape conversation.Shape, body string) (arrival, error) {
	c, err := dial(t)
	if err != nil {
		return arrival{}, err
	}
	defer c.close()
	key := u.add(conversation.NewTape(shape, conversation.Small, 0), shape)
	headers := fmt.Sprintf("%s: %s\r\n%s: true\r\n%s: 1\r\n", headerTape, key, headerStream, headerProof)
	err = c.exchange(shape.Path(), headers, net.Buffers{[]byte(body)}, len(body))
	return u.arrived(), err
}

// plain checks nothing: each response shows that the policy is in force.
func plain(context.Context, *upstream, *target) error { return nil }

func unedited(_ context.Context, u *upstream, t *target) error {
	a, err := reaches(u, t, conversation.Claude, proofClaude)
	if err == nil && string(a.body) != proofClaude {
		err = fmt.Errorf("%w: %s", errLayer, a.body)
	}
	return err
}

func declares(_ context.Context, u *upstream, t *target) error {
	a, err := reaches(u, t, conversation.Claude, proofClaude)
	if err == nil && !bytes.Contains(a.body, []byte(`"mcp__llm_cache__expand"`)) {
		err = fmt.Errorf("%w: %s", errLayer, a.body)
	}
	return err
}

func translates(_ context.Context, u *upstream, t *target) error {
	a, err := reaches(u, t, conversation.Chat, proofChat)
	if err == nil && a.path != conversation.Claude.Path() {
		err = fmt.Errorf("%w: the model was asked at %s", errLayer, a.path)
	}
	return err
}

func overlays(_ context.Context, u *upstream, t *target) error {
	a, err := reaches(u, t, conversation.Chat, proofChat)
	if err == nil && !bytes.Contains(a.body, []byte(`"content":"Hello"`)) {
		err = fmt.Errorf("%w: %s", errLayer, a.body)
	}
	return err
}

func retains(ctx context.Context, _ *upstream, t *target) error {
	made, err := t.behind.gauge(ctx, `caddy_llm_cache_origin_requests_total{result="made"}`)
	if err == nil && made == 0 {
		err = fmt.Errorf("%w: no request came as what is new", errLayer)
	}
	return err
}
