// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/simulator"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// Over the recorded conversations, in all formats, with folds made as if nothing were ever needed
// again: the model restores every folded block, and gets the original text, or the requested lines
// or matches. Each request shows the upstream the same bytes as the earlier ones, including the
// texts of hidden calls. Only a fold may change them, by a stub. No request is refused, nor by
// models that bind thinking to its context.
func TestExpandRecorded(t *testing.T) {
	conversations, err := recording.Find(testkit.RecordingFolder(t))
	if err != nil {
		t.Fatal(err)
	}
	profiles := pricing.Profiles()
	for i, name := range profiles {
		if name == "interactions" {
			// The provider signs thinking before a hidden call as a separate step. A client gets
			// the step and sends it back, unlike a recorded client, so that blocks would seem to
			// change. TestReinsertReasoning and the tongues of integration's tests continue like
			// real clients.
			continue
		}
		t.Run(name, func(t *testing.T) {
			profile, err := pricing.ProfileByName(name)
			if err != nil {
				t.Fatal(err)
			}
			names := 0
			for j, c := range conversations {
				turn := (j + len(profiles) - i) % len(profiles)
				if os.Getenv(everyProfileEnv) == "" && (turn != 2 && turn != 5 || c.Calls > maxRequests()) {
					continue
				}
				names += expandAll(t, profile, c)
			}
			t.Logf("%d stubs", names)
			if names == 0 && maxRequests() == 110 {
				t.Error("nothing was folded")
			}
		})
	}
}

// maxRequests returns the number of requests above which a conversation takes too long.
func maxRequests() int {
	if testing.Short() || raceDetector {
		return 60
	}
	return 110
}

// boldly are options that fold every foldable block as soon as it pays. Under free cached prefixes,
// where folding never pays, it folds at once.
const boldly = `{"planner":{"risk":100},"expand":{"mode":"on"},"strip_narration":{"mode":"off"},` +
	`"compact_tool_results":{"mode":"off"}}`

func expandAll(t *testing.T, profile pricing.Profile, c *recording.Conversation) int {
	t.Helper()
	policy := pipeline.CostAware
	if profile.Rules().Regime == pricing.KV {
		policy = pipeline.Eager
	}
	a, err := newArm(policy, profile, &Options{Handler: []byte(boldly)})
	if err != nil {
		t.Fatal(err)
	}
	defer a.store.Close()
	x := &curious{T: t, arm: a, name: c.Name, known: map[string]bool{}}
	a.up.Hooks.Answer = x.answer
	a.watch = x.watch
	d := &drive{conversation: c, profile: profile, start: defaultStart, progress: func() {}, arms: []*arm{a}}
	if err := d.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := &d.results[0]; r.Rejected+r.Resent+r.FailedOpen > 0 {
		t.Errorf("%s: %d requests refused, %d resent, %d left alone", c.Name, r.Rejected, r.Resent, r.FailedOpen)
	}
	if x.pending != nil {
		t.Errorf("%s: the last call was not answered", c.Name)
	}
	return len(x.known)
}

// curious is a model that restores every folded block.
type curious struct {
	*testing.T
	*arm
	name    string
	known   map[string]bool // stubs of earlier calls
	pending *asked
	fresh   []stubbed // stubs that are new in this turn
	calls   int

	before []sentBlock // of the last request of the previous turn
	first  []sentBlock // of the first request of this turn
	now    []sentBlock // of the last request
	*request
}

// asked is a call with its expected result.
type asked struct{ id, want string }

// stubbed is a folded text: the name in its stub and the client's text.
type stubbed struct{ name, text string }

// sentBlock is a block as the upstream received it.
type sentBlock struct {
	kind              wire.Kind
	id                string
	bytes             uint64 // hash of its bytes
	stub, intercepted bool
}

var seed = maphash.MakeSeed()

func (x *curious) answer(_ context.Context, v *wire.View) *simulator.Answer {
	begins := x.request != x.arm.request
	if begins {
		x.request, x.fresh = x.arm.request, nil
	}
	sent := x.sentBlocks(v)
	if begins {
		x.first = sent
	} else if err := follows(x.now, sent, false); err != nil {
		x.Errorf("%s: a continuation changed what it goes on from: %v", x.name, err)
	}
	x.now = sent
	if x.pending != nil {
		x.check(v)
	}
	if !declares(v) {
		return x.request.answer
	}
	var input map[string]any
	var want string
	switch {
	case x.asked == 0:
		if x.fresh = x.stubs(v); len(x.fresh) == 0 {
			return x.request.answer
		}
		var ids, texts []string
		for _, s := range x.fresh {
			ids, texts = append(ids, s.name), append(texts, s.name+":\n"+s.text)
		}
		input, want = map[string]any{"ids": ids}, strings.Join(texts, "\n")
		if len(ids) == 1 {
			want = x.fresh[0].text
		}
	case x.asked == 1:
		input, want = x.fresh[0].lines()
	case x.asked == 2:
		input, want = x.fresh[len(x.fresh)-1].matches()
	default:
		return x.request.answer
	}
	x.asked++
	x.calls++
	x.pending = &asked{fmt.Sprintf("toolu_curious%06d", x.calls), want}
	raw, err := json.Marshal(input)
	if err != nil {
		x.Fatal(err)
	}
	return &simulator.Answer{Blocks: []simulator.Block{{
		Type: simulator.ToolUse, ID: x.pending.id,
		Name: pipeline.ExpandTool, Input: raw,
	}}}
}

// check compares the last result in a request with the expected one.
func (x *curious) check(v *wire.View) {
	p := x.pending
	x.pending = nil
	blocks := v.MessageBlocks()
	b := &blocks[len(blocks)-1]
	if b.Kind != wire.KindToolResult || v.Text(b.ID) != p.id {
		x.Fatalf("%s: a continuation ends in a %s of %q, not the result of %s", x.name, b.Kind, v.Text(b.ID), p.id)
	}
	if got := plain(v.Bytes(b.Body)); got != p.want {
		x.Errorf("%s: got %.300q of %d bytes, want %.300q of %d", x.name, got, len(got), p.want, len(p.want))
	}
}

// watch checks a finished turn.
func (x *curious) watch(_ time.Time, s *Step) {
	if s.Continued && x.before != nil {
		if err := follows(x.before, x.first, x.policy == pipeline.Eager || s.Decision != nil &&
			s.Decision.Folded > 0); err != nil {
			x.Errorf("%s: after %.0f seconds (%+v): %v", x.name, s.At, s.Decision, err)
		}
	}
	x.before = x.now
}

// follows reports whether a request repeats the previous one. A fold may replace the client's
// blocks by stubs and remove thinking. Blocks that the client lacks stay.
func follows(before, now []sentBlock, folded bool) error {
	j := 0
	for i := range before {
		b := &before[i]
		switch {
		case j < len(now) && now[j] == *b:
			j++
		case !folded || b.intercepted:
			return fmt.Errorf("block %d, a %s %q, has changed", i, b.kind, b.id)
		case j < len(now) && now[j].kind == b.kind && now[j].id == b.id && now[j].stub:
			j++
		case b.kind != wire.KindThinking && b.kind != wire.KindRedactedThinking:
			return fmt.Errorf("block %d, a %s %q, is gone", i, b.kind, b.id)
		}
	}
	return nil
}

func (x *curious) sentBlocks(v *wire.View) []sentBlock {
	out := make([]sentBlock, len(v.Blocks))
	for i := range v.Blocks {
		b := &v.Blocks[i]
		s := &out[i]
		s.kind, s.id = b.Kind, v.Text(b.ID)
		span := b.Span
		if b.Kind == wire.KindText { // a lone text is a string or an array
			span = b.Body
		}
		s.bytes = maphash.Bytes(seed, unmarked(v, span, b.Marker))
		s.intercepted = strings.HasPrefix(s.id, "toolu_curious")
		s.stub = !s.intercepted && (b.Kind == wire.KindToolUse || b.Kind == wire.KindToolResult) &&
			bytes.Contains(v.Bytes(b.Body), []byte("[[llm_cache:folded "))
	}
	return out
}

// unmarked returns the bytes of a block without its cache marker, which moves.
func unmarked(v *wire.View, span, marker rawjson.Span) []byte {
	const member = `,"cache_control":`
	if marker.Empty() || marker.Start < span.Start || marker.End > span.End {
		return v.Bytes(span)
	}
	whole := bytes.Clone(v.Bytes(span))
	at := int(marker.Start-span.Start) - len(member)
	return append(whole[:at:at], whole[marker.End-span.Start:]...)
}

var anyStub = regexp.MustCompile(`\[\[llm_cache:folded ([0-9a-f]{8}(?:\.[0-9]+)?): `)

// stubs returns the new stubs of a request, up to the maximum of one call, with the client's texts.
func (x *curious) stubs(v *wire.View) (out []stubbed) {
	for i := range v.MessageBlocks() {
		b := &v.MessageBlocks()[i]
		if !x.now[v.System+i].stub {
			continue
		}
		var mine []byte
		for _, s := range standing(v.Bytes(b.Body)) {
			if x.known[s.name] {
				continue
			}
			if mine == nil {
				mine = x.client(b.Kind, v.Text(b.ID))
			}
			if s.text = plain(mine); strings.Contains(s.name, ".") {
				s.text = at(mine, s.path)
			}
			if s.text == "" {
				x.Errorf("%s: %s stands for nothing", x.name, s.name)
			}
			if len(out) == 32 {
				return out
			}
			x.known[s.name] = true
			out = append(out, s.stubbed)
		}
	}
	return out
}

// client returns the body of a block in the client's request.
func (x *curious) client(kind wire.Kind, id string) []byte {
	for i := range x.view.MessageBlocks() {
		if b := &x.view.MessageBlocks()[i]; b.Kind == kind && x.view.Text(b.ID) == id {
			return x.view.Bytes(b.Body)
		}
	}
	x.Fatalf("%s: the client has no %s %q", x.name, kind, id)
	return nil
}

// place is a stub and its path in a body.
type place struct {
	stubbed
	path string
}

// standing returns the stubs in a body.
func standing(body []byte) (out []place) {
	walkStrings(decodedJSON(body), "", func(path, s string) {
		if m := anyStub.FindStringSubmatch(s); m != nil {
			out = append(out, place{stubbed{name: m[1]}, path})
		}
	})
	return out
}

// at returns the string at a path.
func at(body []byte, path string) (found string) {
	walkStrings(decodedJSON(body), "", func(p, s string) {
		if p == path {
			found = s
		}
	})
	return found
}

// decodedJSON decodes a body, and once more if it is a text with an object.
func decodedJSON(body []byte) (v any) {
	if json.Unmarshal(body, &v) != nil {
		return nil
	}
	if s, ok := v.(string); ok && strings.HasPrefix(s, "{") {
		var inner map[string]any
		if json.Unmarshal([]byte(s), &inner) == nil {
			return inner
		}
	}
	return v
}

func walkStrings(v any, path string, f func(path, s string)) {
	switch v := v.(type) {
	case string:
		f(path, v)
	case []any:
		for i, e := range v {
			walkStrings(e, path+"/"+strconv.Itoa(i), f)
		}
	case map[string]any:
		for k, e := range v {
			walkStrings(e, path+"/"+k, f)
		}
	}
}

// plain returns the text of a body: a string, or the text parts of a list. For an object it returns
// the JSON.
func plain(body []byte) string {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return ""
	}
	switch v := v.(type) {
	case string:
		return v
	case []any:
		var parts []string
		for _, e := range v {
			if part, ok := e.(map[string]any); ok && part["text"] != nil {
				parts = append(parts, part["text"].(string))
			}
		}
		return strings.Join(parts, "\n")
	}
	return string(body)
}

// lines returns a call for some lines in the middle of a text.
func (s *stubbed) lines() (input map[string]any, want string) {
	all := strings.SplitAfter(s.text, "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	first := len(all) / 3
	last := min(first+10, len(all))
	return map[string]any{"ids": []string{s.name}, "lines": fmt.Sprintf("%d-%d", first+1, last)},
		strings.Join(all[first:last], "")
}

// matches returns a call for the lines that match one line of a text.
func (s *stubbed) matches() (input map[string]any, want string) {
	all := strings.SplitAfter(s.text, "\n")
	word := strings.TrimRight(slices.MaxFunc(all, func(a, b string) int { return len(a) - len(b) }), "\n")
	if len(word) > 20 {
		word = strings.ToValidUTF8(word[:20], "")
	}
	for i, line := range all {
		if line != "" && strings.Contains(line, word) {
			want += strconv.Itoa(i+1) + ":" + line
		}
	}
	return map[string]any{"ids": []string{s.name}, "pattern": regexp.QuoteMeta(word)}, want
}
