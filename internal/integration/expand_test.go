// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// TestExpandShapes has the model call the tool in every position. The client
// sees one message without it; the upstream is asked to go on, and in the next
// request sees what it saw before.
func TestExpandShapes(t *testing.T) {
	read1 := sayCall("toolu_x", "Read", `{"file_path":"/src/new.go"}`)
	result1 := `{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_x","content":"new"}]}`
	prompt := `{"role":"user","content":"And now?"}`
	for _, c := range []struct {
		name       string
		answers    []func(name string) said
		want       []string // blocks of the client
		reason     string
		message    string // the client's next messages
		next       string
		reinserted func(name string) string // what stands for them upstream
	}{
		{
			"expand only",
			[]func(string) said{
				func(n string) said { return said{sayExpand("toolu_e", n)} },
				func(string) said { return said{sayText("I see.")} },
			},
			[]string{"text:I see."},
			"end_turn", sayText("I see."), prompt,
			func(n string) string {
				return `{"role":"assistant","content":[` + sayExpand("toolu_e", n) +
					`]},RESULT(toolu_e),{"role":"assistant","content":[` + sayText("I see.") + `]}`
			},
		},
		{
			"after text",
			[]func(string) said{
				func(n string) said { return said{sayText("Let me look."), sayExpand("toolu_e", n)} },
				func(string) said { return said{sayText("I see."), read1} },
			},
			[]string{"text:Let me look.", "text:I see.", `tool_use:Read{"file_path":"/src/new.go"}`},
			"tool_use",
			sayText("Let me look.") + "," + sayText("I see.") + "," + read1, result1,
			func(n string) string {
				return `{"role":"assistant","content":[` + sayText("Let me look.") + "," + sayExpand("toolu_e", n) +
					`]},RESULT(toolu_e),{"role":"assistant","content":[` + sayText("I see.") + "," + read1 + `]}`
			},
		},
		{
			"after thinking",
			[]func(string) said{
				func(n string) said { return said{sayThought("hm a"), sayExpand("toolu_e", n)} },
				func(string) said { return said{sayThought("hm b"), read1} },
			},
			[]string{"thinking:hm asig-hm-a", "thinking:hm bsig-hm-b", `tool_use:Read{"file_path":"/src/new.go"}`},
			"tool_use",
			sayThought("hm a") + "," + sayThought("hm b") + "," + read1, result1,
			func(n string) string {
				return `{"role":"assistant","content":[` + sayThought("hm a") + "," + sayExpand("toolu_e", n) +
					`]},RESULT(toolu_e),{"role":"assistant","content":[` + sayThought("hm b") + "," + read1 + `]}`
			},
		},
		{
			"mixed",
			[]func(string) said{
				func(n string) said { return said{sayText("Both."), sayExpand("toolu_e", n), read1} },
			},
			[]string{"text:Both.", `tool_use:Read{"file_path":"/src/new.go"}`},
			"tool_use",
			sayText("Both.") + "," + read1, result1,
			func(n string) string {
				return `{"role":"assistant","content":[` + sayText("Both.") + "," + sayExpand("toolu_e", n) + "," + read1 +
					`]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_e","content":"` + fileZero +
					`"},{"type":"tool_result","tool_use_id":"toolu_x","content":"new"}]}`
			},
		},
		{
			"mixed, behind",
			[]func(string) said{
				func(n string) said { return said{read1, sayExpand("toolu_e", n)} },
			},
			[]string{`tool_use:Read{"file_path":"/src/new.go"}`},
			"tool_use", read1, result1,
			func(n string) string {
				return `{"role":"assistant","content":[` + read1 + "," + sayExpand("toolu_e", n) +
					`]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_e","content":"` + fileZero +
					`"},{"type":"tool_result","tool_use_id":"toolu_x","content":"new"}]}`
			},
		},
		{
			"two in a row",
			[]func(string) said{
				func(n string) said { return said{sayText("One."), sayExpand("toolu_e", n)} },
				func(n string) said { return said{sayThought("more"), sayExpand("toolu_f", n)} },
				func(string) said { return said{sayText("Two.")} },
			},
			[]string{"text:One.", "thinking:moresig-more", "text:Two."},
			"end_turn",
			sayText("One.") + "," + sayThought("more") + "," + sayText("Two."), prompt,
			func(n string) string {
				return `{"role":"assistant","content":[` + sayText("One.") + "," + sayExpand("toolu_e", n) + `]},RESULT(toolu_e),` +
					`{"role":"assistant","content":[` + sayThought("more") + "," + sayExpand("toolu_f", n) +
					`]},RESULT(toolu_f),{"role":"assistant","content":[` + sayText("Two.") + `]}`
			},
		},
		{
			"two at once",
			[]func(string) said{
				func(n string) said { return said{sayExpand("toolu_e", n), sayExpand("toolu_f", n)} },
				func(string) said { return said{sayText("Two.")} },
			},
			[]string{"text:Two."},
			"end_turn", sayText("Two."), prompt,
			func(n string) string {
				return `{"role":"assistant","content":[` + sayExpand("toolu_e", n) + "," + sayExpand("toolu_f", n) +
					`]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_e","content":"` + fileZero +
					`"},{"type":"tool_result","tool_use_id":"toolu_f","content":"` + fileZero +
					`"}]},{"role":"assistant","content":[` + sayText("Two.") + `]}`
			},
		},
		{
			"too often",
			[]func(string) said{
				func(n string) said { return said{sayText("1"), sayExpand("toolu_1", n)} },
				func(n string) said { return said{sayText("2"), sayExpand("toolu_2", n)} },
				func(n string) said { return said{sayText("3"), sayExpand("toolu_3", n)} },
				func(n string) said { return said{sayText("4"), sayExpand("toolu_4", n)} },
			},
			[]string{"text:1", "text:2", "text:3", "text:4"},
			"end_turn",
			sayText("1") + "," + sayText("2") + "," + sayText("3") + "," + sayText("4"), prompt,
			func(n string) string {
				s := ""
				for i := 1; i <= 3; i++ {
					s += fmt.Sprintf(`{"role":"assistant","content":[%s,%s]},RESULT(toolu_%d),`, sayText(fmt.Sprint(i)),
						sayExpand(fmt.Sprintf("toolu_%d", i), n), i)
				}
				return s + `{"role":"assistant","content":[` + sayText("4") + "," + sayExpand("toolu_4", n) +
					`]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_4","content":"` + fileZero +
					`"},{"type":"text","text":"And now?"}]}`
			},
		},
	} {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, stream %t", c.name, stream), func(t *testing.T) {
				name := ""
				p, u := folding(t, stream, func(n string, at int, _ *http.Request) said {
					if name == "" {
						name = n
					}
					if at > len(c.answers) {
						return said{sayText("Last.")}
					}
					return c.answers[at-1](n)
				})
				body := read(t, p.post("/v1/messages", agent(5, stream)))
				if strings.Contains(body, "mcp__llm_cache__expand") || strings.Contains(body, "toolu_e") {
					t.Errorf("the client saw the tool: %s", body)
				}
				sum := int64(0)
				for i := range c.answers {
					sum += int64(i + 1)
				}
				if stream {
					g := assemble(t, body)
					if fmt.Sprint(g.blocks) != fmt.Sprint(c.want) || g.reason != c.reason || g.ended != 1 || g.id != "msg_1" {
						t.Fatalf("got %q, reason %s, %d ends, id %s", g.blocks, g.reason, g.ended, g.id)
					}
					if len(c.answers) > 1 && (g.usage.Get("input_tokens").Int() != sum ||
						g.usage.Get("iterations.#").Int() != int64(len(c.answers))) {
						t.Errorf("usage is %s", g.usage.Raw)
					}
				} else {
					content := gjson.Get(body, "content").Raw
					if content != "["+c.message+"]" || gjson.Get(body, "stop_reason").Str != c.reason || !gjson.Valid(body) {
						t.Fatalf("got %s", body)
					}
					if gjson.Get(body, "usage.input_tokens").Int() != sum {
						t.Errorf("usage is %s", gjson.Get(body, "usage").Raw)
					}
				}
				requests := u.requests()
				if len(requests) != 1+len(c.answers) {
					t.Fatalf("the upstream got %d requests", len(requests))
				}
				read(t, p.post("/v1/messages", agent(5, stream, `{"role":"assistant","content":[`+c.message+`]}`, c.next)))
				reinserted := c.reinserted(name)
				for _, id := range []string{"toolu_e", "toolu_f", "toolu_1", "toolu_2", "toolu_3"} {
					reinserted = strings.ReplaceAll(reinserted, "RESULT("+id+")",
						`{"role":"user","content":[{"type":"tool_result","tool_use_id":"`+id+`","content":"`+fileZero+`"}]}`)
				}
				last := u.last().body
				if !gjson.Valid(last) || !strings.Contains(last, reinserted) {
					t.Fatalf("upstream got\n%s\nwant in it\n%s", short(last), short(reinserted))
				}
				// What the upstream was sent to go on stands in later requests.
				if len(c.answers) > 1 && c.name != "too often" {
					cont := requests[len(requests)-1].body
					messages := gjson.Get(cont, "messages").Raw
					at := strings.LastIndex(messages, reinserted[:min(len(reinserted), 60)])
					if at < 0 || !strings.HasPrefix(reinserted, messages[at:len(messages)-1]) {
						t.Errorf("the upstream saw\n%s\nand then\n%s", short(messages), short(reinserted))
					}
				}
				read(t, p.post("/v1/messages", agent(5, stream, `{"role":"assistant","content":[`+c.message+`]}`, c.next,
					`{"role":"assistant","content":`+quoted("Last.")+`}`, prompt)))
				if again := u.last().body; !strings.Contains(again, reinserted) || !gjson.Valid(again) {
					t.Errorf("one request later it is gone:\n%s", short(again))
				}
			})
		}
	}
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// short leaves out the long results.
func short(s string) string {
	s = regexp.MustCompile(`(line of file (\d): x+\\n){3,}`).ReplaceAllString(s, "FILE$2")
	return s[max(0, len(s)-800):]
}

// TestExpandTellsTheLastUsageOfMessages is TestExpandTellsTheLastUsage for the
// Messages API.
func TestExpandTellsTheLastUsageOfMessages(t *testing.T) {
	for _, stream := range []bool{true, false} {
		t.Run(fmt.Sprintf("stream %t", stream), func(t *testing.T) {
			p, u := folding(t, stream, func(n string, at int, _ *http.Request) said {
				if at == 1 {
					return said{sayExpand("toolu_e", n)}
				}
				return said{sayText("I see.")}
			})
			p.reload(strings.Replace(pruning(u), "policy eager", "policy eager\nexpand {\nusage last\n}", 1))
			body := read(t, p.post("/v1/messages", agent(5, stream)))
			usage := gjson.Get(body, "usage")
			if stream {
				usage = assemble(t, body).usage
			}
			if usage.Get("input_tokens").Int() != 2 || usage.Get("cache_read_input_tokens").Int() != 1000 ||
				usage.Get("output_tokens").Int() != 30 || usage.Get("iterations").Exists() {
				t.Errorf("usage is %s", usage.Raw)
			}
			if s := p.sessions(); len(s) != 1 || s[0].requests() != 2 {
				t.Errorf("sessions are %v", s)
			}
		})
	}
}

// TestExpandIsExact asks for a block by lines and by a pattern.
func TestExpandIsExact(t *testing.T) {
	for input, want := range map[string]string{
		`{"ids":["NAME"],"lines":"39-40"}`:   strings.Repeat("line of file 0: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n", 2),
		`{"id":"NAME","pattern":"^nothing"}`: "Nothing there: the text has 40 lines.",
		`{"ids":["00000000"]}`:               `Unknown block: "00000000" is not folded in this conversation.`,
		`{"ids":"NAME.7"}`:                   `Unknown block: "NAME.7" is not folded in this conversation.`,
		`{}`:                                 "Give the ids of folded blocks as in [[llm_cache:folded ID ...]].",
	} {
		name := ""
		p, u := folding(t, true, func(n string, at int, _ *http.Request) said {
			if name = n; at == 1 {
				return said{sayCall("toolu_e", "mcp__llm_cache__expand", strings.ReplaceAll(input, "NAME", n))}
			}
			return said{sayText("Ok.")}
		})
		read(t, p.post("/v1/messages", agent(5, true)))
		messages := gjson.Get(u.last().body, "messages").Array()
		result := messages[len(messages)-1].Get("content.0")
		if result.Get("content").Str != strings.ReplaceAll(want, "NAME", name) {
			t.Errorf("%s gave %q", input, result.Get("content").Str)
		}
		if failed := result.Get("is_error").Bool(); failed != (strings.HasPrefix(want, "Unknown") || input == "{}") {
			t.Errorf("%s: error %t", input, failed)
		}
	}
}

// TestStubIsNotWritten has the model take a stub for content: the call does not
// reach the client, and the model is told.
func TestStubIsNotWritten(t *testing.T) {
	for _, stream := range []bool{true, false} {
		p, u := folding(t, stream, func(n string, at int, _ *http.Request) said {
			if at == 1 {
				return said{sayText("I write."), sayCall("toolu_w", "Write", `{"file_path":"/a","content":"x\n[[llm_cache:folded `+
					n+`: Read]]\n"}`)}
			}
			return said{sayCall("toolu_v", "Write",
				`{"file_path":"/a","content":"[[llm_cache:folded 00000000: of another world]]"}`)}
		})
		body := read(t, p.post("/v1/messages", agent(5, stream)))
		if strings.Contains(body, "toolu_w") || !strings.Contains(body, "toolu_v") ||
			!strings.Contains(body, "another world") {
			t.Errorf("got %s", body)
		}
		messages := gjson.Get(u.last().body, "messages").Array()
		if r := messages[len(messages)-1].Get("content.0"); !r.Get("is_error").Bool() ||
			!strings.HasPrefix(r.Get("content").Str, "Not run: ") {
			t.Errorf("the model was told %s", r.Raw)
		}
	}
}

// TestFirstTextIsNotHeld lets the upstream go on only when the client has the
// events before the call.
func TestFirstTextIsNotHeld(t *testing.T) {
	seen := make(chan struct{})
	first := said{sayThought("hm"), sayText("Let me look."), sayExpand("toolu_e", "00000000")}.events(1)
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n == 2 {
			said{sayText("Done.")}.write(w, true, 2)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range first {
			_, _ = io.WriteString(w, e)
			w.(http.Flusher).Flush()
			if strings.Contains(e, "tool_use") {
				seen = nil // nothing of the call reaches the client
			}
			if seen == nil {
				continue
			}
			select {
			case <-seen:
			case <-r.Context().Done():
				return
			}
		}
	})
	p := start(t, pruning(u))
	res := p.post("/v1/messages", agent(1, true))
	ack := seen
	for _, e := range first {
		if strings.Contains(e, "tool_use") {
			break
		}
		buf := make([]byte, len(e))
		if _, err := io.ReadFull(res.Body, buf); err != nil || string(buf) != e {
			t.Fatalf("got %q, %v, want %q", buf, err, e)
		}
		ack <- struct{}{}
	}
	if g := assemble(t, "data: {\"type\":\"message_start\"}\n\n"+strings.ReplaceAll(read(t, res), `"index":2`,
		`"index":0`)); g.ended != 1 || fmt.Sprint(g.blocks) != "[text:Done.]" {
		t.Errorf("the rest is %+v", g)
	}
}

// TestExpandIsDeclaredOnce looks at when the tool is offered.
func TestExpandIsDeclaredOnce(t *testing.T) {
	for name, c := range map[string]struct {
		body, site string
		want       bool
	}{
		"agent":    {agent(1, false), "", true},
		"short":    {strings.Replace(agent(1, false), strings.Repeat(" ", 8000), "", 1), "", false},
		"no tools": {conversation(1, false), "", false},
		"forced": {
			strings.Replace(agent(1, false), `"tools"`, `"tool_choice":{"type":"any"},"tools"`, 1),
			"", false,
		},
		"no agent": {strings.NewReplacer("Read", "weather", "Write", "news").Replace(agent(1, false)), "", false},
		"asked for": {
			strings.NewReplacer("Read", "weather", "Write", "news").Replace(agent(1, false)), "expand on",
			true,
		},
		"off": {agent(1, false), "expand off", false},
		"another's": {
			strings.Replace(agent(1, false), `"name":"Write"`, `"name":"mcp__llm_cache__expand"`, 1),
			"", false,
		},
		"offered": {
			strings.Replace(agent(1, false), `"name":"Write"`, `"name":"mcp__cachelane__expand"`, 1),
			"", false,
		},
		"only observing":  {agent(1, false), "policy observe", false},
		"nothing to fold": {agent(1, false), "prune off\nplanner {\nfold_inputs off\n}", false},
	} {
		u := newUpstream(t, answerMessage)
		p := start(t, "llm_cache {\n"+c.site+"\n}\nreverse_proxy "+u.Listener.Addr().String())
		read(t, p.post("/v1/messages", c.body))
		tools := gjson.Get(u.last().body, "tools.#").Int() - gjson.Get(c.body, "tools.#").Int()
		if (tools == 1) != c.want {
			t.Errorf("%s: %d tools more", name, tools)
		}
		if c.want && gjson.Get(u.last().body, "tools|@reverse|0.name").Str != "mcp__llm_cache__expand" {
			t.Errorf("%s: it is not the last", name)
		}
	}
}

// TestExpandByOtherNames has the client offer the tool under a name of its own.
func TestExpandByOtherNames(t *testing.T) {
	var u *upstream
	u = newUpstream(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		body := u.requests()[n-1].body
		if m := stubName.FindStringSubmatch(body); m != nil && n == 2 {
			said{sayCall("toolu_e", "mcp__cachelane__expand", `{"block_id":"`+m[1]+`"}`)}.write(w, true, n)
			return
		}
		said{sayText("Ok.")}.write(w, true, n)
	})
	p := start(t, pruning(u))
	offered := func(turns int) string {
		return strings.Replace(agent(turns, true), `"name":"Write"`, `"name":"mcp__cachelane__expand"`, 1)
	}
	read(t, p.post("/v1/messages", offered(4)))
	if g := assemble(t, read(t, p.post("/v1/messages", offered(5)))); fmt.Sprint(g.blocks) != "[text:Ok.]" {
		t.Errorf("got %+v", g)
	}
	if len(u.requests()) != 3 || !strings.Contains(u.last().body, fileZero) {
		t.Errorf("%d requests", len(u.requests()))
	}
}
