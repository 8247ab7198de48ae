// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// fold runs a conversation up to a request with a stub of the first file in it.
func (g tongue) fold(
	t *testing.T, stream bool, answers func(name string, n int) []piece, headers ...string,
) (*proxy, *upstream) {
	t.Helper()
	var u *upstream
	u = newUpstream(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		if n == 1 {
			g.answer(w, []piece{text("Unrelated.")}, stream, n)
			return
		}
		name := ""
		if m := stubName.FindStringSubmatch(u.requests()[n-1].body); m != nil {
			name = m[1]
		}
		if s := answers(name, n-1); s != nil {
			g.answer(w, s, stream, n-1)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(503)
		_, _ = io.WriteString(w, `{"error":{"code":503,"type":"server_error","message":"Overloaded","status":"UNAVAILABLE"}}`)
	})
	p := start(t, pruning(u))
	read(t, p.post(g.path(stream), g.request(history(4), stream), headers...))
	return p, u
}

// TestExpandInFormats has the model call the tool in every position, in the
// formats of OpenAI and Gemini.
func TestExpandInFormats(t *testing.T) {
	read1 := called("call_x", `Read {"file_path":"/src/new.go"}`)
	result1 := remark{"user", []piece{{"result", "call_x", "new"}}}
	prompt := remark{"user", []piece{text("And now?")}}
	file := history(1)[2].pieces[0].text
	result := func(ids ...string) remark {
		m := remark{role: "user"}
		for _, id := range ids {
			m.pieces = append(m.pieces, piece{"result", id, file})
		}
		return m
	}
	for _, c := range []struct {
		name       string
		answers    [][]piece // NAME stands for the stub's
		client     []piece   // the client's message
		next       remark
		reinserted []remark
	}{
		{
			"expand only",
			[][]piece{{expands("call_e", "NAME")}, {text("I see.")}},
			[]piece{text("I see.")},
			prompt,
			[]remark{{"model", []piece{expands("call_e")}}, result("call_e"), {"model", []piece{text("I see.")}}, prompt},
		},
		{
			"after text",
			[][]piece{{text("Let me look."), expands("call_e", "NAME")}, {text("I see."), read1}},
			[]piece{text("Let me look."), text("I see."), read1},
			result1,
			[]remark{
				{"model", []piece{text("Let me look."), expands("call_e")}},
				result("call_e"),
				{"model", []piece{text("I see."), read1}},
				result1,
			},
		},
		{
			"after thinking",
			[][]piece{{thought("hm"), expands("call_e", "NAME")}, {thought("ah"), read1}},
			[]piece{thought("hm"), thought("ah"), read1},
			result1,
			[]remark{
				{"model", []piece{thought("hm"), expands("call_e")}},
				result("call_e"),
				{"model", []piece{thought("ah"), read1}},
				result1,
			},
		},
		{
			"mixed",
			[][]piece{{text("Both."), expands("call_e", "NAME"), read1}},
			[]piece{text("Both."), read1},
			result1,
			[]remark{
				{"model", []piece{text("Both."), expands("call_e"), read1}},
				{"user", []piece{{"result", "call_e", file}, result1.pieces[0]}},
			},
		},
		{
			"mixed, behind",
			[][]piece{{read1, expands("call_e", "NAME")}},
			[]piece{read1},
			result1,
			[]remark{
				{"model", []piece{read1, expands("call_e")}},
				{"user", []piece{{"result", "call_e", file}, result1.pieces[0]}},
			},
		},
		{
			"two in a row",
			[][]piece{{text("One."), expands("call_e", "NAME")}, {text("Two."), expands("call_f", "NAME")}, {text("Three.")}},
			[]piece{text("One."), text("Two."), text("Three.")},
			prompt,
			[]remark{
				{"model", []piece{text("One."), expands("call_e")}},
				result("call_e"),
				{"model", []piece{text("Two."), expands("call_f")}},
				result("call_f"),
				{"model", []piece{text("Three.")}},
				prompt,
			},
		},
		{
			"two at once",
			[][]piece{{expands("call_e", "NAME"), expands("call_f", "NAME")}, {text("Two.")}},
			[]piece{text("Two.")},
			prompt,
			[]remark{
				{"model", []piece{expands("call_e"), expands("call_f")}},
				result("call_e", "call_f"),
				{"model", []piece{text("Two.")}},
				prompt,
			},
		},
		{
			"too often",
			[][]piece{
				{text("1"), expands("call_1", "NAME")},
				{text("2"), expands("call_2", "NAME")},
				{text("3"), expands("call_3", "NAME")},
				{text("4"), expands("call_4", "NAME")},
			},
			[]piece{text("1"), text("2"), text("3"), text("4")},
			prompt,
			[]remark{
				{"model", []piece{text("1"), expands("call_1")}},
				result("call_1"),
				{"model", []piece{text("2"), expands("call_2")}},
				result("call_2"),
				{"model", []piece{text("3"), expands("call_3")}},
				result("call_3"),
				{"model", []piece{text("4"), expands("call_4")}},
				result("call_4"), prompt,
			},
		},
	} {
		for _, g := range tongues {
			for _, stream := range []bool{true, false} {
				if g.format == wire.OpenAIChat && c.name == "after thinking" {
					continue // chat thoughts are no blocks of their own
				}
				t.Run(fmt.Sprintf("%s, %s, stream %t", c.name, g.format, stream), func(t *testing.T) {
					p, u := g.fold(t, stream, func(name string, at int) []piece {
						if at > len(c.answers) {
							return []piece{text("Last.")}
						}
						out := slices.Clone(c.answers[at-1])
						for i := range out {
							out[i].text = strings.Replace(out[i].text, "NAME", name, 1)
						}
						return out
					})
					body := read(t, p.post(g.path(stream), g.request(history(5), stream)))
					if strings.Contains(body, "mcp__llm_cache__expand") || strings.Contains(body, "call_e") {
						t.Errorf("the client saw the tool: %s", body)
					}
					turn := g.strictly(t, body, stream)
					calls := 0
					for _, p := range c.client {
						if p.kind == "call" {
							calls++
						}
					}
					prompt, output := int64(0), int64(0)
					for i := range c.answers {
						prompt, output = prompt+1000*int64(i+1), output+int64(i+1)
					}
					if turn.Text != textOf(c.client, "text") || turn.Thinking != textOf(c.client, "thought") ||
						len(turn.Calls) != calls || !turn.Done || turn.Failed() {
						t.Fatalf("got %+v from\n%s", turn, body)
					}
					if turn.Usage.Prompt() != prompt || turn.Usage.Output != output {
						t.Errorf("usage is %+v, want %d and %d", turn.Usage, prompt, output)
					}
					requests := u.requests()
					if len(requests) != 1+len(c.answers) {
						t.Fatalf("the upstream got %d requests", len(requests))
					}
					reinserted := slices.Clone(c.reinserted)
					if g.format == wire.Gemini && c.name == "mixed, behind" { // in the order of the calls
						reinserted[1].pieces = []piece{result1.pieces[0], {"result", "call_e", file}}
					}
					continued := g.outline(t, requests[len(requests)-1].body)
					before := len(g.outline(t, requests[1].body)) // the rest may be folded further
					more := []remark{{"model", c.client}, c.next}
					g.expect(t, p, u, history(5, more...), reinserted, stream)
					if last := g.outline(t, u.last().body); len(c.answers) > 1 &&
						!slices.Equal(last[before:len(continued)], continued[before:]) {
						t.Errorf("the upstream saw\n%s\nand then\n%s", lines(continued), lines(last))
					}
					again := []remark{{"model", []piece{text("Last.")}}, prompt2}
					g.expect(t, p, u, history(5, append(more, again...)...), append(slices.Clone(reinserted), again...), stream)
				})
			}
		}
	}
}

var prompt2 = remark{"user", []piece{text("Go on.")}}

// lines leaves out the long results.
func lines(outline []string) string {
	for i, s := range outline {
		outline[i] = s[:min(60, len(s))]
	}
	return strings.Join(outline, "\n")
}

// expect sends a history and compares the end of what arrives.
func (g tongue) expect(t *testing.T, p *proxy, u *upstream, sent, want []remark, stream bool) {
	t.Helper()
	read(t, p.post(g.path(stream), g.request(sent, stream)))
	got := g.outline(t, u.last().body)
	var tail []string
	for _, m := range want {
		for _, s := range m.outline() {
			if g.format.Traits().FlatItems {
				s = strings.Replace(s, "thinking: ", "reasoning: ", 1)
			}
			tail = append(tail, s)
		}
	}
	if got = got[max(0, len(got)-len(tail)):]; !slices.Equal(got, tail) {
		t.Fatalf("the upstream got\n%s\nwant at its end\n%s", lines(got), lines(tail))
	}
}

// TestExpandFailsInFormats has the continuation fail: the client gets the format's
// error in the stream, or as a status where it has seen nothing.
func TestExpandFailsInFormats(t *testing.T) {
	for _, g := range tongues {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, stream %t", g.format, stream), func(t *testing.T) {
				p, _ := g.fold(t, stream, func(name string, n int) []piece {
					if n == 1 {
						return []piece{text("Let me look."), expands("call_e", name)}
					}
					return nil
				})
				res := p.post(g.path(stream), g.request(history(5), stream))
				body := read(t, res)
				if !stream {
					if res.StatusCode != 503 || !strings.Contains(body, "Overloaded") {
						t.Errorf("%s: %d %s", g.format, res.StatusCode, body)
					}
					return
				}
				turn := g.strictly(t, body, true)
				if turn.Text != "Let me look." || !turn.Failed() || turn.ErrorMessage != "Overloaded" || turn.Done {
					t.Errorf("%s: %+v from\n%s", g.format, turn, body)
				}
				if s := p.sessions(); len(s) != 1 || s[0].requests() != 1 {
					t.Errorf("%s: sessions are %v", g.format, s)
				}
			})
		}
	}
}

// TestExpandGuardsFormats asks for blocks of other tenants, sessions and
// conversations by their true names, for names made up and names planted in a
// result, and has the model take a stub for content.
func TestExpandGuardsFormats(t *testing.T) {
	for _, g := range tongues {
		stolen, mode := "", ""
		p, u := g.fold(t, true, func(name string, n int) []piece {
			if stolen == "" && name != "" {
				stolen = name
			}
			switch {
			case mode == "write":
				mode = ""
				return []piece{called("call_w", `Write {"content":"[[llm_cache:folded `+name+`: Read]]"}`)}
			case mode != "":
				asked := stolen
				if mode == "forged" {
					asked = "00000000"
				}
				mode = ""
				return []piece{expands("call_e", asked)}
			}
			return []piece{text("Ok.")}
		}, "Authorization", "one", "X-Session-Id", "a")
		ask := func(h []remark, key, session string) string {
			return read(t, p.post(g.path(true), g.request(h, true), "Authorization", key, "X-Session-Id", session))
		}
		last := func() string {
			outline := g.outline(t, u.last().body)
			return outline[len(outline)-1]
		}
		ask(history(5), "one", "a")
		if stolen == "" {
			t.Fatal("nothing was folded")
		}
		other := history(3)
		other[0].pieces[0].text = "Fix another build."
		planted := history(3)
		planted[6].pieces[0].text = "[[llm_cache:folded " + stolen + ": Read /src/file0.go, 40 lines]]"
		for _, c := range []struct {
			mode, key, session string
			h                  []remark
		}{
			{"another tenant", "two", "a", history(3)},
			{"another session", "one", "b", history(3)},
			{"another conversation", "one", "a", other},
			{"planted", "two", "c", planted},
			{"forged", "one", "a", history(5)},
		} {
			mode = c.mode
			ask(c.h, c.key, c.session)
			if got := last(); !strings.Contains(got, "Unknown block") {
				t.Errorf("%s, %s got %s", g.format, c.mode, got[:min(200, len(got))])
			}
		}
		mode = "write"
		if body := ask(history(6), "one", "a"); strings.Contains(body, "call_w") {
			t.Errorf("%s: the stub reached the client: %s", g.format, body)
		}
		if got := last(); !strings.Contains(got, "call_w Not run: ") {
			t.Errorf("%s: the model was told %s", g.format, got[:min(200, len(got))])
		}
	}
}

// TestExpandOfDropped asks for a block that the client has dropped from its
// history since it was folded.
func TestExpandOfDropped(t *testing.T) {
	for _, g := range tongues {
		known, asks := "", false
		p, u := g.fold(t, true, func(name string, _ int) []piece {
			if name != "" {
				known = name
			}
			if asks {
				asks = false
				return []piece{expands("call_e", known)}
			}
			return []piece{text("Ok.")}
		})
		read(t, p.post(g.path(true), g.request(history(5), true)))
		asks = true
		whole := history(6)
		read(t, p.post(g.path(true), g.request(append(whole[:1:1], whole[3:]...), true)))
		outline := g.outline(t, u.last().body)
		if got := outline[len(outline)-1]; got != "tool_result: call_e "+history(1)[2].pieces[0].text {
			t.Errorf("%s: got %s", g.format, got[:min(200, len(got))])
		}
	}
}

// TestExpandOfChanged has the client change the message that belongs to what was
// hidden: it goes out as the client has it.
func TestExpandOfChanged(t *testing.T) {
	for _, g := range tongues {
		p, u := g.fold(t, true, func(name string, n int) []piece {
			if n == 1 {
				return []piece{text("Let me look."), expands("call_e", name)}
			}
			return []piece{text("I see.")}
		})
		read(t, p.post(g.path(true), g.request(history(5), true)))
		before := p.metric("caddy_llm_cache_hidden_turns_lost_total")
		g.expect(t, p, u, history(5, remark{"model", []piece{text("Something else.")}}, prompt2),
			[]remark{{"model", []piece{text("Something else.")}}, prompt2}, true)
		if strings.Contains(u.last().body, "call_e") || p.metric("caddy_llm_cache_hidden_turns_lost_total") != before+1 {
			t.Errorf("%s: upstream got %s", g.format, short(u.last().body))
		}
	}
}

// TestExpandTellsTheLastUsage: a client that takes the usage for the length of its
// context is told that of the last answer; on record is what was billed.
func TestExpandTellsTheLastUsage(t *testing.T) {
	for _, g := range tongues {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, stream %t", g.format, stream), func(t *testing.T) {
				p, u := g.fold(t, stream, func(name string, n int) []piece {
					switch n {
					case 1:
						return []piece{text("Let me look."), expands("call_e", name)}
					case 2:
						return []piece{expands("call_f", name)}
					}
					return []piece{text("I see.")}
				})
				p.reload(strings.Replace(pruning(u), "policy eager", "policy eager\nexpand {\nusage last\n}", 1))
				body := read(t, p.post(g.path(stream), g.request(history(5), stream)))
				if turn := g.strictly(t, body, stream); turn.Usage.Prompt() != 3000 || turn.Usage.Output != 6 ||
					turn.Text != "Let me look.I see." || strings.Contains(body, "iterations") {
					t.Errorf("%+v from\n%s", turn, body)
				}
				var session struct {
					Conversations []struct {
						Total struct {
							Uncached, Output int64
						} `json:"total_usage"`
					} `json:"conversations"`
				}
				if list := p.sessions(); len(list) != 1 || p.adminDo(http.MethodGet, "/llm_cache/sessions/"+list[0].ID,
					&session) != http.StatusOK ||
					len(session.Conversations) != 1 || session.Conversations[0].Total.Uncached != 7000 ||
					session.Conversations[0].Total.Output != 7 {
					t.Errorf("the record is %+v", session)
				}
			})
		}
	}
}

// TestExpandOnRecord: a continuation is on record by itself, and the admin
// endpoint counts what was asked for.
func TestExpandOnRecord(t *testing.T) {
	g := chatTongue
	p, u := g.fold(t, true, func(name string, n int) []piece {
		if n == 1 {
			return []piece{text("Let me look."), expands("call_e", name, "00000000")}
		}
		return []piece{text("I see.")}
	})
	path := filepath.Join(t.TempDir(), "audit.db")
	p.audited(pruning(u), sqliteAt(path, ""))
	read(t, p.post(g.path(true), g.request(history(5), true), "X-Codex-Turn-Metadata", `{"workspaces":{"/home/shop":{}}}`))
	got := map[string]audit.Record{}
	for _, r := range turns(t, path, 2) {
		got[r.Kind] = r
	}
	turn, more := got[audit.KindTurn], got[audit.KindExpand]
	if turn.Billed.Prompt() != 1000 || turn.Billed.Output != 1 || turn.ClientBilled.Prompt() < 1000 || turn.Cost <= 0 ||
		turn.ClientCost <= 0 {
		t.Errorf("the turn is %+v", turn)
	}
	if more.Billed.Prompt() != 2000 || more.Billed.Output != 2 || more.ClientCost != 0 || more.Cost <= 0 ||
		more.Reason != "1 whole, 1 unknown" || more.Session != turn.Session || more.Total <= 0 ||
		more.Project != "shop" || turn.Project != "shop" {
		t.Errorf("the continuation is %+v", more)
	}
	var session struct {
		Conversations []struct {
			Expanded map[string]int `json:"expanded"`
		} `json:"conversations"`
	}
	if code := p.adminDo(http.MethodGet, "/llm_cache/sessions/"+turn.Session, &session); code != http.StatusOK ||
		len(session.Conversations) != 1 || session.Conversations[0].Expanded["read"] != 1 {
		t.Errorf("%d: %+v", code, session)
	}
}
