// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/caddy"
	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/engine"
)

// boxTurns is the number of the agent's requests. boxLate is the first request with one more tool,
// boxResumed the first of a restarted process.
const (
	boxTurns   = 30
	boxLate    = 12
	boxResumed = 16
)

// An agent with every prefix-breaking habit works on a real engine. It has its version in front,
// system messages with token counts in the middle, shuffled tools, tools that come and go, its own
// formatting of arguments, a changed git status after its restart, and side requests for titles.
func TestBox(t *testing.T) {
	const mlx, llama, late = "mlx_openai_server", "llama_cpp", "overlay {\nlate_tools on\n}"
	for _, c := range []struct {
		name     string
		upstream string
		slots    int
		sliding  bool
		side     bool
		options  string
		over     []int
	}{
		// The default configuration.
		{"one slot", mlx, 1, false, false, "", none},
		{"one slot, sliding window", mlx, 1, true, false, "", none},
		// llama.cpp lets models call listed tools only, and lists them before all messages.
		{"one slot, listed tools", llama, 1, false, false, "", []int{boxLate}},
		{"one slot, sliding window, listed tools", llama, 1, true, false, "", []int{boxLate}},

		{"two slots, side requests", llama, 2, false, true, late, none},
		{"two slots, side requests, sliding window", llama, 2, true, true, late, none},
		{"one slot, side requests elsewhere", llama, 1, false, true, late + "\nside_requests " + elsewhere, none},
		{"one slot, without the overlay", llama, 1, false, false, "overlay off", nil},
	} {
		t.Run(c.name, func(t *testing.T) { runBox(t, c.upstream, c.slots, c.sliding, c.side, c.options, c.over) })
	}
}

// TestTwoConversations: two agents take turns on two slots, each with a request for a title after
// every step. These are three prompts for two slots.
func TestTwoConversations(t *testing.T) {
	for _, c := range []struct {
		name    string
		prompts int // prompts that the server keeps besides its slots
		titles  int // steps between titles
		options string
		most    float64 // maximum share of processed prompt tokens, 0 for a measurement
	}{
		{"slots only", 0, 1, "", 0.6},
		{"slots only, few titles", 0, 5, "", 0.3},
		{"prompts besides", 10, 1, "", 0.3},
		{"slots only, without the overlay", 0, 1, "overlay off", 0},
		{"slots only, few titles, without the overlay", 0, 5, "overlay off", 0},
	} {
		if c.most == 0 && !*ablate {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			b := startBox(t, engine.Options{Slots: 2, Prompts: c.prompts}, "upstream llama_cpp\nqueue {\nslots 2\n}\n"+c.options)
			script := boxScript()
			var both []engine.Step
			for i := range script {
				both = append(both, script[i], script[i])
			}
			if err := b.engine.Script(t.Context(), both); err != nil {
				t.Fatal(err)
			}
			agents := []*boxAgent{
				{url: b.url, session: "6f1c1f0e-0000-4000-8000-000000000001"},
				{url: b.url, session: "6f1c1f0e-0000-4000-8000-000000000002"},
			}
			for turn := range boxLate {
				for _, a := range agents {
					a.turn(t, turn)
					if turn%c.titles == 0 {
						a.title(t)
					}
				}
			}
			list, err := b.engine.Requests(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			prompts, processed := 0, 0
			for _, r := range list {
				t.Logf("%+v", r)
				prompts, processed = prompts+r.Prompt, processed+r.Processed
			}
			share := float64(processed) / float64(prompts)
			t.Logf("%d of %d tokens processed in %d requests: %.1f %%", processed, prompts, len(list), 100*share)
			if c.most > 0 && share > c.most {
				t.Errorf("got %.1f %% of all prompts processed, want %.1f %% at most", 100*share, 100*c.most)
			}
		})
	}
}

var ablate = flag.Bool("ablate", false, "measure what a box does without the overlay, or without one of its rules")

// TestBoxRules measures the savings of each rule from the agent's changes.
func TestBoxRules(t *testing.T) {
	if !*ablate {
		t.Skip("a measurement: -ablate")
	}
	for _, c := range []struct {
		name    string
		slots   int
		sliding bool
		side    bool
		overlay string
	}{
		// Out of reach: the side request takes the only slot.
		{"one slot, side requests", 1, false, true, "overlay {\nlate_tools on\n}"},
		{"one slot, sliding window, without the overlay", 1, true, false, "overlay off"},
		{"two slots, side requests, without the overlay", 2, false, true, "overlay off"},
	} {
		t.Run(c.name, func(t *testing.T) { runBox(t, "llama_cpp", c.slots, c.sliding, c.side, c.overlay, nil) })
	}
	for _, rule := range []string{"token_counters", "tool_order", "pins", "exact_answers"} {
		t.Run(rule, func(t *testing.T) {
			runBox(t, "llama_cpp", 1, false, false, "overlay {\nlate_tools on\n"+rule+" off\n}", nil)
		})
	}
}

// none is an empty list of turns over the bar; nil skips the check.
var none = []int{}

// elsewhere is a placeholder for the address of another engine.
const elsewhere = "{elsewhere}"

func runBox(t *testing.T, upstream string, slots int, sliding, side bool, options string, over []int) {
	if strings.Contains(options, elsewhere) {
		options = strings.ReplaceAll(options, elsewhere, startEngine(t, engine.Options{}).Addr)
	}
	b := startBox(t, engine.Options{Slots: slots, Sliding: sliding}, fmt.Sprintf("upstream %s\nqueue {\nslots %d\n}\n%s",
		upstream, slots, options))
	a := &boxAgent{url: b.url, side: side, told: upstream == "llama_cpp"}
	if err := b.engine.Script(t.Context(), boxScript()); err != nil {
		t.Fatal(err)
	}
	for turn := range boxTurns {
		a.turn(t, turn)
	}
	b.judge(t, boxTurns, over)
}

// Claude Code works on a real engine, ends, and continues in a second process.
func TestClaudeCodeOnABox(t *testing.T) {
	needClient(t, claudeCode{})
	for _, c := range []struct {
		name    string
		sliding bool
		overlay string
		over    []int
	}{
		{"overlay", false, "", none},
		{"overlay, sliding window", true, "", none},
		{"without the overlay", false, "overlay off", nil},
	} {
		if c.over == nil && !*ablate {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			b := startBox(t, engine.Options{Sliding: c.sliding, Context: 131072}, "upstream llama_cpp\nqueue\n"+c.overlay)
			r := newRepository(t, claudeCode{})
			first := []step{
				calls(r.bash("grep -rn TODO src")).think(),
				calls(r.read("README.md"), r.bash("wc -l src/*")),
				calls(r.read("src/c.go")).think(),
				calls(r.edit("src/c.go", "// TODO: first", "// done: first \"quoted\" → ü")),
				{Text: "The first one is done."},
			}
			second := []step{
				calls(r.bash("git status --short")).think(),
				calls(r.edit("src/c.go", "// TODO: second", "// done: second")),
				calls(r.bash("git diff --stat")),
				{Text: "Both are done now."},
			}
			steps := engineSteps(append(first, second...))
			if err := b.engine.Script(t.Context(), steps); err != nil {
				t.Fatal(err)
			}
			claude := newUser(t, claudeCode{url: b.url}, r.dir)
			claude.patience = 15 * time.Minute
			claude.ask(t, "Find the TODOs in this repository and fix the first one in src/c.go.", first)
			claude.ask(t, "Now fix the second one.", second)
			r.check(t)
			b.judge(t, len(steps), c.over)
		})
	}
}

// engineSteps returns a script for the engine, which writes arguments with spaces.
func engineSteps(steps []step) (list []engine.Step) {
	for _, s := range steps {
		e := engine.Step{Thinking: s.Thinking, Text: s.Text}
		for _, c := range s.Calls {
			arguments := strings.ReplaceAll(string(jsonOf(c.Input)), `":"`, `": "`)
			e.Calls = append(e.Calls, engine.Call{Name: c.Name, Arguments: arguments})
		}
		list = append(list, e)
	}
	return list
}

// box is a Caddy before an engine.
type box struct {
	*caddy.Process
	engine *engine.Engine
	url    string
}

func startBox(t *testing.T, o engine.Options, options string) *box {
	t.Helper()
	needCaddy(t)
	b := &box{engine: startEngine(t, o)}
	addrs, err := caddy.FreeAddrs(2)
	if err != nil {
		t.Fatal(err)
	}
	s := &stack{dir: t.TempDir()}
	b.url = "http://" + addrs[1]
	b.Process = s.start(t, "front", addrs[0],
		site(addrs[0], addrs[1], "front", "llm_cache {\n"+options+"\n}\nreverse_proxy "+b.engine.Addr))
	return b
}

// judge compares the processed with the new tokens, and the turns over the bar with want unless
// want is nil.
func (b *box) judge(t *testing.T, turns int, want []int) {
	t.Helper()
	list, err := b.engine.Requests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before, processed, fresh, prompts, turn := 0, 0, 0, 0, 0
	over := []int{}
	for _, r := range list {
		if r.Tools == 0 {
			continue
		}
		added := r.Prompt - before
		if turn > 0 {
			processed, fresh, prompts = processed+r.Processed, fresh+added, prompts+r.Prompt
			if r.Processed > added+r.Prompt/50 {
				over = append(over, turn)
				t.Logf("turn %d: %d tokens processed, %d are new of %d", turn, r.Processed, added, r.Prompt)
			}
		}
		before, turn = r.Prompt, turn+1
	}
	t.Logf("%d turns: %d tokens in prompts, %d of them new, %d processed (%.1f %%); %d turns over the bar",
		turn-1, prompts, fresh, processed, 100*float64(processed)/float64(max(prompts, 1)), len(over))
	if want != nil && !slices.Equal(over, want) {
		t.Errorf("the turns %v are over the bar, want %v", over, want)
	}
	if want != nil && turn != turns {
		t.Errorf("%d turns reached the engine, want %d", turn, turns)
	}
	log, err := os.ReadFile(b.LogFile)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(log, []byte("panic")) {
		t.Errorf("Caddy's log:\n%s", b.LogTail())
	}
}

// boxScript returns the model's steps. It writes arguments with spaces, like models do.
func boxScript() []engine.Step {
	steps := make([]engine.Step, boxTurns)
	for i := range steps {
		s := &steps[i]
		s.Calls = []engine.Call{{Name: "Read", Arguments: fmt.Sprintf(`{"file_path": "/src/file_%d.go", "limit": %d}`, i,
			20+i)}}
		switch {
		case i == boxResumed-1 || i == boxTurns-1:
			*s = engine.Step{Text: "That is all for now; the file is changed."}
		case i%3 == 0:
			s.Thinking = fmt.Sprintf("File %d names the function that the test calls.", i)
			s.Text = "Let me look at the next file."
		case i%4 == 0:
			s.Calls = append(s.Calls, engine.Call{
				Name:      "Bash",
				Arguments: `{"command": "grep -n \"x < y\" src", "description": "Search"}`,
			})
		}
	}
	return steps
}

// boxAgent sends requests like Claude Code.
type boxAgent struct {
	url      string
	session  string
	side     bool
	told     bool // message_start must have the length of the prompt
	messages []json.RawMessage
	asked    int
}

func jsonOf(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

type object map[string]any

// turn sends one request and executes the calls of the answer.
func (a *boxAgent) turn(t *testing.T, turn int) {
	t.Helper()
	switch turn {
	case 0:
		a.messages = append(a.messages, jsonOf(object{"role": "user", "content": []any{
			object{"type": "text", "text": "<system-reminder>\nNotes of the user:\nKeep changes small.\n</system-reminder>"},
			object{"type": "text", "text": "Look through this repository and mend the build."},
		}}), jsonOf(object{"role": "system", "content": "Environment: /src is a git repository. " +
			strings.Repeat("Do not guess what a file holds, read it. ", 10)}))
	case boxResumed:
		a.messages = append(a.messages, jsonOf(object{"role": "user", "content": "Now check the diff and go on."}))
	}
	if a.side && turn%5 == 4 {
		a.title(t)
	}
	content := a.post(t, a.request(turn))
	a.messages = append(a.messages, jsonOf(object{"role": "assistant", "content": content}))
	var results []any
	for _, c := range content {
		if c["type"] == "tool_use" {
			results = append(results, object{
				"type": "tool_result", "tool_use_id": c["id"],
				"content": fmt.Sprintf("%d\tpackage main\n%d\t// a < b && c \"quoted\" → ü\n%s", turn, turn+1,
					strings.Repeat(fmt.Sprintf("line of file %d\n", turn), 12)),
			})
		}
	}
	if len(results) == 0 {
		return
	}
	a.messages = append(a.messages, jsonOf(object{"role": "user", "content": results}))
	if turn%4 == 3 {
		a.messages = append(a.messages, jsonOf(object{
			"role":    "system",
			"content": fmt.Sprintf("The list of tasks was not used for %d turns.", turn),
		}))
	}
	a.messages = append(a.messages, jsonOf(object{
		"role":    "system",
		"content": fmt.Sprintf("<total_tokens>%d tokens left</total_tokens>", 180000-turn*731),
	}))
}

// title sends a side request for a title.
func (a *boxAgent) title(t *testing.T) {
	t.Helper()
	a.post(t, object{
		"model": "claude-haiku-4-5", "max_tokens": 50,
		"messages": []any{object{"role": "user", "content": "Make a title for: mend the build"}},
		"system": []any{
			object{"type": "text", "text": a.billing() + " side"},
			object{"type": "text", "text": strings.Repeat("You write short titles. ", 40)},
		}, "stream": true,
		"metadata": a.metadata(),
	})
}

func (a *boxAgent) metadata() object {
	return object{"user_id": `{"device_id":"d","account_uuid":"","session_id":"` +
		cmp.Or(a.session, "6f1c1f0e-0000-4000-8000-000000000001") + `"}`}
}

func (a *boxAgent) billing() string {
	a.asked++
	return fmt.Sprintf("x-anthropic-billing-header: cc_version=2.1.328.%03x; cc_entrypoint=cli; cch=%05x;", a.asked%7,
		a.asked*7919)
}

func (a *boxAgent) request(turn int) object {
	status := "M src/a.go"
	if turn >= boxResumed {
		status = "M src/a.go\nM src/b.go\n?? NOTES.md"
	}
	marked := object{"type": "ephemeral"}
	messages := slices.Clone(a.messages)
	messages[len(messages)-1] = markLast(messages[len(messages)-1])
	return object{
		"model": "claude-opus-5-5", "max_tokens": 32000, "stream": true, "messages": messages,
		"system": []any{
			object{"type": "text", "text": a.billing()},
			object{"type": "text", "text": "You are an agent for the command line.", "cache_control": marked},
			object{"type": "text", "text": strings.Repeat("Work carefully, and say what you have done. ", 60) +
				"\n\ngitStatus: This is the git status at the start of the conversation.\nCurrent branch: main\n\nStatus:\n" +
				status + "\n\nRecent commits:\n1a2b3c4 first\n", "cache_control": marked},
		},
		"tools":    boxTools(turn),
		"metadata": a.metadata(),
		"thinking": object{"type": "adaptive"},
	}
}

// markLast sets the moving cache marker on the last block of a message.
func markLast(raw json.RawMessage) json.RawMessage {
	var m struct {
		Role    string `json:"role"`
		Content any    `json:"content"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		panic(err)
	}
	marked := map[string]any{"type": "ephemeral"}
	if text, ok := m.Content.(string); ok {
		m.Content = []any{map[string]any{"type": "text", "text": text, "cache_control": marked}}
	} else {
		list := m.Content.([]any)
		list[len(list)-1].(map[string]any)["cache_control"] = marked
	}
	return jsonOf(m)
}

// boxTools returns the tools of a request. Their order changes sometimes, the twelfth request adds
// one in the middle, and one is missing between the twentieth and the end.
func boxTools(turn int) (tools []any) {
	names := []string{"Bash", "Edit", "Glob", "Grep", "Read", "Write"}
	if turn >= boxLate {
		names = slices.Insert(names, 3, "LSP")
	}
	if turn >= 20 {
		names = slices.DeleteFunc(names, func(s string) bool { return s == "Glob" })
	}
	if turn%7 == 5 {
		slices.Reverse(names)
	}
	for _, name := range names {
		tools = append(tools, object{
			"name": name, "description": name + ": " + strings.Repeat("what this tool does and when to use it. ", 8),
			"input_schema": object{"type": "object", "properties": object{
				"file_path": object{"type": "string"},
				"limit":     object{"type": "integer"}, "command": object{"type": "string"}, "description": object{"type": "string"},
			}},
		})
	}
	return tools
}

// post sends a request and returns the blocks of the answer.
func (a *boxAgent) post(t *testing.T, body object) []object {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+"/v1/messages?beta=true",
		bytes.NewReader(jsonOf(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "X-Api-Key": {"sk-test"},
		"Anthropic-Version": {"2023-06-01"},
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(res.Body)
		t.Fatalf("%s: %s", res.Status, said)
	}
	var content []object
	var input strings.Builder
	ended := false
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type    string `json:"type"`
			Message struct {
				Usage struct {
					Uncached int `json:"input_tokens"`
				} `json:"usage"`
			} `json:"message"`
			Block object `json:"content_block"`
			Delta struct {
				Text      string `json:"text"`
				Thinking  string `json:"thinking"`
				Signature string `json:"signature"`
				Partial   string `json:"partial_json"`
			} `json:"delta"`
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		add := func(name, text string) {
			if text != "" {
				last := content[len(content)-1]
				before, _ := last[name].(string)
				last[name] = before + text
			}
		}
		switch e.Type {
		case "message_start":
			// The engine reports progress. At least one token of a prompt is always processed.
			if a.told && e.Message.Usage.Uncached == 0 {
				t.Errorf("the length of the prompt is not known at the beginning: %s", data)
			}
		case "content_block_start":
			content = append(content, e.Block)
			input.Reset()
		case "content_block_delta":
			add("text", e.Delta.Text)
			add("thinking", e.Delta.Thinking)
			add("signature", e.Delta.Signature)
			input.WriteString(e.Delta.Partial)
		case "content_block_stop":
			if last := content[len(content)-1]; last["type"] == "tool_use" {
				var v any // encoded again, like clients do
				if err := json.Unmarshal([]byte(input.String()), &v); err != nil {
					t.Fatalf("arguments: %v in %q", err, input.String())
				}
				last["input"] = v
			}
		case "message_stop":
			ended = true
		}
	}
	if lines.Err() != nil || !ended {
		t.Fatalf("the answer did not end: %v", lines.Err())
	}
	return content
}
