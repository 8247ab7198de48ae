// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package transcript

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// opencodeHome makes opencode's data from recorded rows, as a database or as files.
func opencodeHome(t *testing.T, files bool) string {
	t.Helper()
	raw, err := os.ReadFile("testdata/opencode/rows.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows struct {
		Session, Message, Part [][]json.RawMessage
	}
	if err := json.Unmarshal(raw, &rows); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	dir := filepath.Join(home, ".local/share/opencode")
	word := func(r json.RawMessage) (s string) { _ = json.Unmarshal(r, &s); return s }
	if files {
		put := func(data string, name ...string) {
			path := filepath.Join(append([]string{dir, "storage"}, name...)...) + ".json"
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range rows.Session {
			put(`{"id":`+string(s[0])+`,"directory":`+string(s[1])+`}`, "session", "p", word(s[0]))
		}
		for _, m := range rows.Message {
			put(string(m[3]), "message", word(m[1]), word(m[0]))
		}
		for _, p := range rows.Part {
			put(string(p[3]), "part", word(p[1]), word(p[0]))
		}
		return home
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "opencode.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	exec := func(q string, args ...any) {
		if _, err := db.Exec(q, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE TABLE session (id text, directory text)")
	exec("CREATE TABLE message (id text, session_id text, time_created integer, data text)")
	exec("CREATE TABLE part (id text, message_id text, session_id text, data text)")
	for _, s := range rows.Session {
		exec("INSERT INTO session VALUES (?, ?)", word(s[0]), word(s[1]))
	}
	for _, m := range rows.Message {
		exec("INSERT INTO message VALUES (?, ?, ?, ?)", word(m[0]), word(m[1]), string(m[2]), string(m[3]))
	}
	for _, p := range rows.Part {
		exec("INSERT INTO part VALUES (?, ?, ?, ?)", word(p[0]), word(p[1]), word(p[2]), string(p[3]))
	}
	return home
}

// home copies the transcripts of all agents to their folders.
func home(t *testing.T) string {
	t.Helper()
	home := opencodeHome(t, false)
	for from, to := range map[string]string{
		"claude-code": ".claude", "codex": ".codex", "pi": ".pi/agent",
		"gemini-cli": ".gemini",
	} {
		if err := os.CopyFS(filepath.Join(home, to), os.DirFS(filepath.Join("testdata", from))); err != nil {
			t.Fatal(err)
		}
	}
	return home
}

func readAll(t *testing.T, sources []Source) []*Session {
	t.Helper()
	var all []*Session
	for _, s := range sources {
		sessions, err := s.Read()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, sessions...)
	}
	return all
}

// check validates a session for replay and for the APIs.
func check(t *testing.T, s *Session) {
	t.Helper()
	for _, p := range s.Parts {
		var all []Message
		for i, c := range p.Calls {
			if n := len(c.Messages); n == 0 || c.Messages[n-1].Role != "user" {
				t.Fatalf("%s: call %d does not end with a user message", s.ID, i)
			}
			all = append(all, c.Messages...)
		}
		open := []string(nil)
		for i, m := range all {
			if want := []string{"user", "assistant"}[i%2]; m.Role != want || len(m.Content) == 0 {
				t.Fatalf("%s: message %d is of %s with %d blocks", s.ID, i, m.Role, len(m.Content))
			}
			var results, calls []string
			for j, b := range m.Content {
				if !json.Valid(b.Raw) {
					t.Fatalf("%s: block %d of message %d is no JSON: %s", s.ID, j, i, b.Raw)
				}
				var again Block
				if err := json.Unmarshal(b.Raw, &again); err != nil || again.Type != b.Type || again.Text != b.Text ||
					again.ID != b.ID || again.ToolUseID != b.ToolUseID {
					t.Fatalf("%s: block %d of message %d differs from its bytes: %v\n%+v\n%s", s.ID, j, i, err, b, b.Raw)
				}
				switch b.Type {
				case "tool_use":
					calls = append(calls, b.ID)
				case "tool_result":
					results = append(results, b.ToolUseID)
				}
			}
			if m.Role == "user" && !slices.Equal(results, open) {
				t.Fatalf("%s: message %d answers %v, not %v", s.ID, i, results, open)
			}
			if m.Role == "assistant" && m.Content[len(m.Content)-1].Type == "thinking" {
				t.Fatalf("%s: message %d ends with thinking", s.ID, i)
			}
			open = calls
		}
	}
}

// The agents themselves held these conversations with a simulated model, in a script of 18 or 19
// steps (12 in pi).
func TestAgents(t *testing.T) {
	sources, err := Discover(home(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	type want struct {
		model, project string
		calls          int
	}
	wants := map[string]want{
		"claude-code": {"claude-opus-5-5", "/home/dev/repository", 19},
		"codex":       {"gpt-6.1-sol", "/home/dev/repository", 19},
		"gemini-cli":  {"gemini-3.1-pro-preview", "/home/dev/repository", 18},
		"opencode":    {"claude-sonnet-4-5", "/home/dev/repository", 19},
		"pi":          {"gpt-5", "/home/dev/repository", 12},
	}
	sessions := readAll(t, sources)
	if len(sessions) != len(wants) {
		t.Fatalf("%d sessions, want %d: %+v", len(sessions), len(wants), sources)
	}
	for _, s := range sessions {
		if got := (want{s.Model, s.Project, s.Calls()}); got != wants[s.Agent] {
			t.Errorf("%s: %+v, want %+v", s.Agent, got, wants[s.Agent])
		}
		if s.Unknown != 0 || len(s.Parts) != 1 || s.ID == "" || s.Started.IsZero() {
			t.Errorf("%s: %d unknown lines, %d parts, id %q, started %s", s.Agent, s.Unknown, len(s.Parts), s.ID, s.Started)
		}
		check(t, s)
		for i, c := range s.Parts[0].Calls {
			if c.At == nil || c.End == nil || *c.End < *c.At || i > 0 && *c.At < *s.Parts[0].Calls[i-1].At {
				t.Errorf("%s: call %d has no time, or time goes back", s.Agent, i)
			}
			if c.Usage == nil || c.Usage.prompt() == 0 {
				t.Errorf("%s: call %d has no usage", s.Agent, i)
			}
		}
		if s.Parts[0].Header.Fit.Overhead < 1000 {
			t.Errorf("%s: %.0f tokens of system prompt and tools", s.Agent, s.Parts[0].Header.Fit.Overhead)
		}
	}
}

func TestOpencodeFiles(t *testing.T) {
	sources, err := Discover(opencodeHome(t, true), nil)
	if err != nil {
		t.Fatal(err)
	}
	sessions := readAll(t, sources)
	if len(sessions) != 1 || sessions[0].Calls() != 19 || sessions[0].Project != "/home/dev/repository" {
		t.Fatalf("%+v of %+v", sessions, sources)
	}
	check(t, sessions[0])
}

// Scan identifies files by their contents.
func TestScan(t *testing.T) {
	sources, err := Scan(home(t))
	if err != nil || len(sources) != 5 {
		t.Fatalf("%+v, %v", sources, err)
	}
	elsewhere := filepath.Join(t.TempDir(), "x.jsonl")
	if err := os.WriteFile(elsewhere, []byte(`{"type":"order","id":7}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Scan(elsewhere); err == nil {
		t.Error("a file of nobody's was taken")
	}
}

func TestVariables(t *testing.T) {
	at := home(t)
	sources, err := Discover(t.TempDir(), func(name string) string {
		return map[string]string{
			"CLAUDE_CONFIG_DIR": filepath.Join(at, ".claude"),
			"CODEX_HOME":        filepath.Join(at, ".codex"),
		}[name]
	})
	if err != nil || len(sources) != 2 {
		t.Fatalf("%+v, %v", sources, err)
	}
}

// file writes lines and reads them as a transcript.
func file(t *testing.T, lines ...string) []*Session {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rollout-x.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	sources, err := Scan(path)
	if err != nil {
		t.Fatal(err)
	}
	sessions := readAll(t, sources)
	for _, s := range sessions {
		check(t, s)
	}
	return sessions
}

// saidIn returns the texts in the requests of a part, a word a block.
func saidIn(p *Part) string {
	var out []string
	for _, c := range p.Calls {
		var call []string
		for _, m := range c.Messages {
			for _, b := range m.Content {
				switch b.Type {
				case "text":
					call = append(call, b.Text)
				case "tool_result":
					call = append(call, "="+b.ToolUseID)
				default:
					call = append(call, b.Type+b.ID)
				}
			}
		}
		out = append(out, strings.Join(call, " "))
	}
	return strings.Join(out, " | ")
}

func codexLine(at, kind, payload string) string {
	return `{"timestamp":"2026-01-01T00:00:` + at + `Z","type":"` + kind + `","payload":` + payload + `}`
}

func TestCodex(t *testing.T) {
	message := func(at, role, text string) string {
		return codexLine(at, "response_item", `{"type":"message","role":"`+role+`","content":[{"type":"input_text","text":"`+
			text+`"}]}`)
	}
	meta := codexLine("00.1", "session_meta", `{"id":"s","cwd":"/p"}`)
	for _, c := range []struct {
		name  string
		lines []string
		want  []string
	}{
		{"compacted", []string{
			meta, message("01", "user", "go"), message("02", "assistant", "yes"), message("03", "user", "on"),
			message("04", "assistant", "good"),
			codexLine("05", "compacted",
				`{"message":"","replacement_history":[{"type":"message","role":"user","content":[{"type":"input_text",`+
					`"text":"sum"}]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"mary"}]}]}`),
			message("06", "user", "next"), message("07", "assistant", "end"),
		}, []string{"go | yes on", "sum mary next"}},
		{"forked", []string{
			codexLine("00.1", "session_meta", `{"id":"s","forked_from_id":"r","cwd":"/p"}`), message("00.1", "user", "go"),
			message("00.2", "assistant", "yes"),
			message("09", "user", "on"), message("10", "assistant", "good"),
		}, []string{"go yes on"}},
		{"a custom tool's input is text", []string{
			meta, message("01", "user", "go"),
			codexLine("02", "response_item",
				`{"type":"custom_tool_call","call_id":"a","name":"apply_patch","input":"*** Begin Patch"}`),
			codexLine("03", "response_item", `{"type":"custom_tool_call_output","call_id":"a","output":"ok"}`),
			message("04", "assistant", "done"),
		}, []string{"go | tool_usea =a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, s := range file(t, c.lines...) {
				for _, p := range s.Parts {
					got = append(got, saidIn(p))
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestPi(t *testing.T) {
	line := func(id, parent, message string) string {
		return `{"type":"message","id":"` + id + `","parentId":"` + parent + `","timestamp":"2026-01-01T00:00:0` + id +
			`Z","message":` + message + `}`
	}
	said := func(role, text string) string {
		return `{"role":"` + role + `","content":[{"type":"text","text":"` + text + `"}],"usage":{"input":9}}`
	}
	head := `{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00Z","cwd":"/p"}`
	var got []string
	for _, s := range file(t, head, line("1", "", said("user", "go")), line("2", "1", said("assistant", "yes")),
		line("3", "2", said("user", "on")), line("4", "3", said("assistant", "good")),
		line("5", "2", said("user", "other")), line("6", "5", said("assistant", "way")),
		`{"type":"compaction","id":"7","parentId":"6","timestamp":"2026-01-01T00:00:07Z","summary":"sum",`+
			`"firstKeptEntryId":"6"}`,
		line("8", "7", said("user", "next")), line("9", "8", said("assistant", "end"))) {
		for _, p := range s.Parts {
			got = append(got, saidIn(p))
		}
	}
	if want := []string{"go | yes on", "go yes other", "sum way next"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// After a change of branches the texts of one branch are not in the other.
func TestPiGoesBackToALeftBranch(t *testing.T) {
	line := func(id, parent, role, text string) string {
		return `{"type":"message","id":"` + id + `","parentId":"` + parent +
			`","timestamp":"2026-01-01T00:00:00Z","message":{"role":"` + role + `","content":"` + text + `"}}`
	}
	head := `{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00Z","cwd":"/p"}`
	var got []string
	for _, s := range file(t, head, line("1", "", "user", "go"), line("2", "1", "assistant", "yes"),
		line("3", "2", "user", "left"), line("4", "3", "assistant", "l"),
		line("5", "2", "user", "right"), line("6", "5", "assistant", "r"),
		line("7", "4", "user", "more"), line("8", "7", "assistant", "m"), // the left branch continues
		line("9", "6", "user", "end"), line("10", "9", "assistant", "e"), // the right branch continues
		line("11", "10", "user", "fin"), line("12", "11", "assistant", "f")) {
		for _, p := range s.Parts {
			got = append(got, saidIn(p))
		}
	}
	if want := []string{
		"go | yes left", "go yes right", "go yes left l more",
		"go yes right r end | e fin",
	}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestGeminiDocument(t *testing.T) {
	path := filepath.Join(t.TempDir(), "session.json")
	doc := `{"sessionId":"s","projectHash":"h","messages":[{"id":"1","timestamp":"2026-01-01T00:00:01Z","type":"user",` +
		`"content":"go"},` +
		`{"id":"2","timestamp":"2026-01-01T00:00:02Z","type":"gemini","content":"","model":"gemini-2.5-pro",` +
		`"tokens":{"input":9},"toolCalls":[{"id":"a","name":"ls","args":{},"result":[{"functionResponse":{"id":"a",` +
		`"response":{"output":"x"}}}]}]},` +
		`{"id":"3","timestamp":"2026-01-01T00:00:03Z","type":"gemini","content":"done","tokens":{"input":9}}]}`
	if err := os.WriteFile(path, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	sources, err := Scan(path)
	if err != nil {
		t.Fatal(err)
	}
	s := readAll(t, sources)[0]
	check(t, s)
	if got := saidIn(s.Parts[0]); got != "go | tool_usea =a" {
		t.Errorf("%q", got)
	}
}

// Wherever a file is cut, its complete lines are read.
func TestCutOff(t *testing.T) {
	sources, err := Discover(home(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sources {
		if s.Agent == "opencode" {
			continue
		}
		whole, err := os.ReadFile(s.Path)
		if err != nil {
			t.Fatal(err)
		}
		before := 0
		for n := 0; n <= len(whole); n += max(1, len(whole)/40) {
			cut := s
			cut.Path = filepath.Join(t.TempDir(), filepath.Base(s.Path))
			if err := os.WriteFile(cut.Path, whole[:n], 0o600); err != nil {
				t.Fatal(err)
			}
			calls := 0
			for _, one := range readAll(t, []Source{cut}) {
				check(t, one)
				calls += one.Calls()
			}
			if calls < before {
				t.Errorf("%s: %d calls of %d bytes, %d of fewer", s.Agent, calls, n, before)
			}
			before = calls
		}
	}
}

// A part in memory reads like its recording.
func TestWrite(t *testing.T) {
	sources, err := Discover(home(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range readAll(t, sources) {
		p := s.Parts[0]
		var b bytes.Buffer
		if err := p.Write(&b); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "p1.jsonl")
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if found, err := Scan(filepath.Dir(path)); err != nil || len(found) != 0 {
			t.Errorf("%s: a recording is taken for a transcript: %+v, %v", s.Agent, found, err)
		}
		written, err := OpenTrace(path)
		if err != nil {
			t.Fatal(err)
		}
		held := p.Trace("memory")
		for i := range p.Calls {
			a, err := written.Next()
			if err != nil {
				t.Fatal(err)
			}
			b, err := held.Next()
			if err != nil {
				t.Fatal(err)
			}
			one, _ := json.Marshal(a)
			other, _ := json.Marshal(b)
			if !bytes.Equal(one, other) {
				t.Errorf("%s: call %d differs", s.Agent, i)
			}
		}
		_ = written.Close()
	}
}

func TestRedact(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"key sk-ant-api03-abcdefghijklmnop here", "key REDACTED here"},
		{"ghp_abcdefghijklmnopqrstuvwxyz0123 and AKIAABCDEFGHIJKLMNOP", "REDACTED and REDACTED"},
		{`export API_KEY="abcdefghijklmnopqrstuvwx"`, `export API_KEY="REDACTED"`},
		{"Authorization: Bearer abcdefghijklmnopqrstuvwx", "Authorization: Bearer REDACTED"},
		{"-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----", "REDACTED"},
		{"Authorization: Basic dXNlcjpzdXBlcnNlY3JldHBhc3N3b3Jk", "Authorization: Basic REDACTED"},
		{"a\\nsk-ant-api03-abcdefghijklmnop", "a\\nREDACTED"},
		{"\x1b[1;32mghp_abcdefghijklmnopqrstuvwxyz0123\x1b[0m", "\x1b[1;32mREDACTED\x1b[0m"},
		{"task-abcdefghijklmnopqrstuvwx", "task-abcdefghijklmnopqrstuvwx"},
		{"func tokenize(s string) []string", "func tokenize(s string) []string"},
		{"commit 0123456789abcdef0123456789abcdef01234567", "commit 0123456789abcdef0123456789abcdef01234567"},
	} {
		if got := redactText(c.in); got != c.want {
			t.Errorf("%q became %q, want %q", c.in, got, c.want)
		}
	}
	p := &Part{Calls: []*Call{{Messages: []Message{
		{Role: "user", Content: []Block{textBlock("use sk-ant-api03-abcdefghijklmnop")}},
		{Role: "assistant", Content: []Block{
			thinkingBlock("sk-ant-api03-abcdefghijklmnop", "signature")[0],
			callBlock("sk-id", "Bash", `{"command":"export K=sk-ant-api03-abcdefghijklmnop"}`),
		}},
		{Role: "user", Content: []Block{resultBlock("sk-id",
			quoted("a line\nsk-ant-api03-abcdefghijklmnop\n\tghp_abcdefghijklmnopqrstuvwxyz0123"), true)}},
	}}}}
	p.Redact()
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	if s := b.String(); strings.Contains(s, "sk-ant") || strings.Contains(s, "ghp_") || strings.Count(s, redacted) != 5 ||
		!strings.Contains(s, `"is_error":true`) || !strings.Contains(s, `"signature":"signature"`) {
		t.Errorf("redacted: %s", s)
	}
}
