// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// cleared matches the content of a tool result.
var cleared = regexp.MustCompile(`("tool_use_id":"\w*","content":)("[^"\\]*(\\.[^"\\]*)*"|\[.*?\]),"is_error"`)

// wanderer is a client with random conversations.
type wanderer struct {
	*rand.Rand
	talks []*talk
	now   time.Time
	calls int // number of calls
	// asides enables side requests and repeated prompts, which begin like another conversation.
	// Several processes do not send these as one would.
	asides bool
}

// talk is one of its conversations.
type talk struct {
	model    string
	messages []string
}

func newWanderer(seed uint64) *wanderer {
	return &wanderer{Rand: rand.New(rand.NewPCG(seed, 7)), now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
}

func (w *wanderer) code(lines int) string {
	var b strings.Builder
	for n := range lines {
		fmt.Fprintf(&b, "%6d\tfunc f%d(x int) error { return call(x, %d) }\n", n+1, w.IntN(300), w.IntN(90))
	}
	return b.String()
}

func person(format string, args ...any) string {
	return fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":%q}]}`, fmt.Sprintf(format, args...))
}

// begin begins a conversation.
func (w *wanderer) begin() *talk {
	w.talks = append(w.talks, &talk{"m", []string{person("Fix bug %d.", w.IntN(100))}})
	w.talks = w.talks[max(0, len(w.talks)-5):]
	return w.talks[len(w.talks)-1]
}

// next chooses a conversation, and a way to continue it.
func (w *wanderer) next() *talk {
	if len(w.talks) == 0 {
		return w.begin()
	}
	w.now = w.now.Add(time.Duration(w.IntN(30)) * time.Second)
	if w.IntN(12) == 0 {
		w.now = w.now.Add(7 * time.Minute) // the cache has expired
	}
	t := w.talks[w.IntN(len(w.talks))]
	last := len(t.messages) - 1
	switch w.IntN(30) {
	case 0:
		return w.begin()
	case 1: // a branch: both conversations continue
		fork := &talk{t.model, slices.Clone(t.messages)}
		w.talks = append(w.talks, fork)
		return fork
	case 2: // a rewind
		n := 2 * w.IntN(last/2+1)
		if n > 0 && strings.Contains(t.messages[n-1], `"tool_use"`) {
			n = 0
		}
		t.messages = append(t.messages[:n:n], person("Rather do %d.", w.IntN(1000)))
	case 3: // a compaction
		t.messages = []string{person("This session is being continued. Summary: %s", w.code(10))}
	case 4: // thinking is switched off
		for i, m := range t.messages {
			if from := strings.Index(m, `{"type":"thinking"`); from >= 0 {
				if end := strings.Index(m[from:], `},`); end > 0 {
					t.messages[i] = m[:from] + m[from+end+2:]
				}
			}
		}
	case 5:
		t.messages[last] = strings.TrimSuffix(t.messages[last], "]}") +
			fmt.Sprintf(`,{"type":"text","text":"<reminder %d>"}]}`, w.IntN(50))
	case 6:
		t.model = []string{"m", "n"}[w.IntN(2)]
	case 7:
		if w.asides {
			t = &talk{t.model, []string{t.messages[0], person("Find a title for %d.", w.IntN(1000))}}
			w.talks = append(w.talks, t)
		}
	case 8:
		if w.asides {
			t.messages = t.messages[:2*w.IntN(last/2+1)+1]
		}
	case 9: // the client clears an old result
		if i := 2 * w.IntN(last/2+1); strings.Contains(t.messages[i], `"tool_result"`) {
			t.messages[i] = cleared.ReplaceAllString(t.messages[i], `$1"[Old tool result content cleared]","is_error"`)
		}
	case 10: // the last response is interrupted before its calls
		if last > 0 {
			if from := strings.Index(t.messages[last-1], `,{"type":"tool_use"`); from > 0 {
				t.messages[last-1] = t.messages[last-1][:from] + "]}"
				t.messages[last] = person("[Request interrupted by user] Rather do %d.", w.IntN(1000))
			}
		}
	}
	return t
}

// body returns the next request of a conversation.
func (w *wanderer) body(t *talk) []byte {
	const marker = `,"cache_control":{"type":"ephemeral"}`
	n := len(t.messages) - 1
	last := strings.TrimSuffix(t.messages[n], "}]}") + marker + "}]}"
	return fmt.Appendf(nil,
		`{"model":%q,"system":[{"type":"text","text":%q%s}],"tools":[{"name":"Read"},{"name":"Edit"},{"name":"Bash"}],`+
			`"messages":[%s]}`,
		t.model, strings.Repeat("Be helpful. ", 900), marker, strings.Join(append(t.messages[:n:n], last), ","))
}

// answer returns a random response, the client's copy of it, and the client's next message.
func (w *wanderer) answer() (turn wire.Turn, messages []string) {
	w.calls++
	turn.Done = true
	var said, results []string
	if w.IntN(2) == 0 {
		turn.Thinking = fmt.Sprint("thought ", w.calls)
		said = append(said, fmt.Sprintf(`{"type":"thinking","thinking":%q,"signature":"s%d"}`, turn.Thinking, w.calls))
	}
	turn.Text = []string{"Let me look at that.", w.code(3)}[w.IntN(2)]
	said = append(said, fmt.Sprintf(`{"type":"text","text":%q}`, turn.Text))
	for n := range w.IntN(3) {
		id, path := fmt.Sprintf("toolu_%d_%d", w.calls, n), fmt.Sprintf("/src/file%d.go", w.IntN(8))
		name, input, text := "Read", fmt.Sprintf(`{"file_path":%q}`, path), w.code(20+w.IntN(60))
		switch w.IntN(4) {
		case 0:
			name, text = "Edit", "The file was updated."
			input = fmt.Sprintf(`{"file_path":%q,"old_string":%q,"new_string":%q}`, path, w.code(8), w.code(8))
		case 1:
			name, input, text = "Bash", fmt.Sprintf(`{"command":"go test # %d"}`, w.calls),
				strings.Repeat("ok  \tpkg\t0.1s\n", w.IntN(60))+w.code(w.IntN(60))
		}
		turn.Calls = append(turn.Calls, wire.Call{ID: id, Name: name, Arguments: input})
		said = append(said, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":%s}`, id, name, input))
		content := fmt.Sprintf("%q", text)
		if w.IntN(3) == 0 {
			content = `[{"type":"text","text":` + content + `}` + []string{
				"", `,{"type":"text","text":"more"}`,
				`,{"type":"image","source":{}}`,
			}[w.IntN(3)] + `]`
		}
		results = append(results, fmt.Sprintf(`{"type":"tool_result","tool_use_id":%q,"content":%s,"is_error":%t}`, id,
			content, w.IntN(10) == 0))
	}
	if len(results) == 0 {
		results = append(results, fmt.Sprintf(`{"type":"text","text":"Now do task %d, please."}`, w.IntN(1000)))
	}
	return turn, []string{
		`{"role":"assistant","content":[` + strings.Join(said, ",") + `]}`,
		`{"role":"user","content":[` + strings.Join(results, ",") + `]}`,
	}
}
