// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit/caddytest"
)

const scorer = "../lingua/testdata/models/bert"

// shortLife is how long the upstream's cache lives in these tests: what comes later than
// a tenth more is cold.
const shortLife = 2 * time.Second

// wordy is a site that leaves words out of prose and folds nothing.
func wordy(u *upstream, compressor string) string {
	return `llm_cache {
	upstream anthropic {
		cache_ttl ` + shortLife.String() + `
	}
	health /health
	admission off
	prune off
	strip_narration off
	breakpoints off
	expand on
	planner {
		fold_inputs off
	}
	compress lingua2 {
		` + compressor + `
		share 1
	}
}
reverse_proxy ` + u.Listener.Addr().String()
}

// page is a text that a tool has returned, of prose and a block of code.
func page(n int) string {
	prose := fmt.Sprintf("The page with the number %d tells of a meeting that was long and that nobody liked at all, "+
		"in a town by the sea where it always rains.\n", n)
	return "# Page\n\n" + strings.Repeat(prose, 4) + "\n```go\nfunc   keep(a int)   { return a }\n```\n"
}

// surfing is a request after so many turns in which pages were fetched; each file that was
// read, command that failed and JSON that was returned is made of the same prose.
func surfing(turns int, more ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b,
		`{"model":"claude-opus-4-6","max_tokens":1000,"system":"You are an agent.","messages":[{"role":"user","content":%s}`,
		js(page(1000)))
	for i := range turns {
		name, input, result, failed := "WebFetch", fmt.Sprintf(`{"url":"https://example.com/%d"}`, i), page(i), ""
		switch i {
		case 1:
			name, input = "Read", `{"file_path":"/src/page.md"}`
		case 2:
			failed = `,"is_error":true`
		case 3:
			raw, _ := json.Marshal(map[string]string{"page": result})
			result = string(raw)
		}
		fmt.Fprintf(&b,
			`,{"role":"assistant","content":[{"type":"text","text":%s},{"type":"tool_use","id":"toolu_%d","name":%q,`+
				`"input":%s}]}`, js(page(100+i)), i, name, input)
		fmt.Fprintf(&b, `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%d","content":%s%s}]}`, i,
			js(result), failed)
	}
	for _, m := range more {
		b.WriteString("," + m)
	}
	b.WriteString(`],"tools":[{"name":"WebFetch","input_schema":{"type":"object"}},{"name":"Read",` +
		`"input_schema":{"type":"object"}}]}`)
	return b.String()
}

// results are the texts of all tool results in a body.
func results(body string) (all []string) {
	gjson.Get(body, "messages.#.content").ForEach(func(_, content gjson.Result) bool {
		content.ForEach(func(_, b gjson.Result) bool {
			if b.Get("type").Str == "tool_result" {
				all = append(all, b.Get("content").String())
			}
			return true
		})
		return true
	})
	return all
}

// messages are the messages of a body as they stand in it, without the end of the list.
func messagesOf(body string) string {
	return strings.TrimSuffix(gjson.Get(body, "messages").Raw, "]")
}

// until waits for something that happens behind an answer.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 600 {
		if is() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("never: " + what)
}

// compressor is what the health path says of the compressor.
func (p *proxy) compressor() gjson.Result {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://"+p.addr+"/health", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	res, err := p.client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	return gjson.Get(read(p.t, response{res}), "features.compress")
}

const shortenedTexts = `caddy_llm_cache_compress_texts_total{outcome="shortened"}`

var shortened = regexp.MustCompile(`^\[\[llm_cache:folded ([0-9a-f]{8}): .*shortened below by leaving out words\. ` +
	`mcp__llm_cache__expand returns it\.\]\]\n`)

// TestCompress: words of old prose are left out once the upstream's cache is cold, and
// nothing else is touched; the bytes stay, through a reload too; expand returns the
// original; what was found out outlives the compressor.
func TestCompress(t *testing.T) {
	var u *upstream
	asks := ""
	u = newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if asks != "" {
			name := asks
			asks = ""
			said{sayExpand("toolu_x", name)}.write(w, false, n)
			return
		}
		answerMessage(w, r, n)
	})
	p := start(t, wordy(u, "model "+scorer))
	send := func(body string) (sent string, res response) {
		t.Helper()
		res = p.post("/v1/messages", body, "X-Session-Id", "one", "X-Api-Key", "secret")
		if read(t, res); res.StatusCode != http.StatusOK {
			t.Fatalf("status %d", res.StatusCode)
		}
		return u.last().body, res
	}
	before := p.metric(shortenedTexts)
	first, res := send(surfing(8))
	for i, text := range results(first) {
		if strings.Contains(text, "llm_cache") {
			t.Errorf("result %d: changed in the first request: %.100s", i, text)
		}
	}
	if h := res.Header.Get("X-Llm-Cache-Compressed"); h != "" {
		t.Errorf("header of the first request: %q", h)
	}
	until(t, "five texts are shortened", func() bool { return p.metric(shortenedTexts)-before >= 5 })
	if got := p.compressor().Get("device").Str; !strings.HasPrefix(got, "CPU, ") {
		t.Errorf("health says %q", got)
	}

	// The words are known, and the cache is cold. Whoever finds words out is not asked again.
	p.reload(wordy(u, "model "+scorer))
	time.Sleep(shortLife + shortLife/4)
	second, res := send(surfing(9))
	texts, name := results(second), ""
	for i, text := range texts {
		want := i == 0 || i == 4 // the last four turns, files, errors and JSON stay
		m := shortened.FindStringSubmatch(text)
		if (m != nil) != want {
			t.Errorf("result %d: %.200s", i, text)
		}
		if m == nil {
			if want := results(surfing(9))[i]; text != want {
				t.Errorf("result %d is not the original: %.200s", i, text)
			}
			continue
		}
		name = m[1]
		if len(text) > len(page(i)) || !strings.Contains(text, "\n\n```go\nfunc   keep(a int)   { return a }\n```\n") ||
			!strings.Contains(text, fmt.Sprintf(" %d ", i)) {
			t.Errorf("result %d: %s", i, text)
		}
	}
	for what, path := range map[string]string{
		"what the person wrote": "messages.0.content",
		"what the model said":   "messages.1.content.0.text",
	} {
		if strings.Contains(gjson.Get(second, path).Str, "llm_cache") {
			t.Errorf("%s is changed", what)
		}
	}
	if h := res.Header.Get("X-Llm-Cache-Compressed"); !regexp.MustCompile(`^texts=2; saved_tokens=[1-9]\d*; ms=\d+$`).MatchString(h) {
		t.Errorf("header: %q", h)
	}
	if h := res.Header.Get("X-Llm-Cache-Transforms"); !strings.Contains(h, "compress;n=2") {
		t.Errorf("transforms: %q", h)
	}
	if t.Failed() {
		return
	}

	// For ever in the same bytes, while the cache is warm, and after a reload.
	third, _ := send(surfing(10))
	if !strings.HasPrefix(messagesOf(third), messagesOf(second)) {
		t.Errorf("the prefix has changed")
	}
	p.reload(wordy(u, "model "+scorer))
	asks = name
	fourth, _ := send(surfing(11))
	if !strings.HasPrefix(messagesOf(fourth), messagesOf(third)) {
		t.Errorf("the prefix has changed after a reload")
	}
	if got := results(fourth); got[len(got)-1] != page(4) {
		t.Errorf("expand returned %.200s", got[len(got)-1])
	}
}

// TestCompressorDies: a compressor that is slow, answers errors or is gone costs no
// request anything: all of them go out as they came.
func TestCompressorDies(t *testing.T) {
	u := newUpstream(t, answerMessage)
	release := make(chan struct{})
	var asked atomic.Int32
	c := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(c.Close)
	const failures = `caddy_llm_cache_compress_texts_total{outcome="failed"}`
	p := start(t, wordy(u, "compressor http "+c.URL))
	before := p.metric(failures)
	for turns := 6; turns < 9; turns++ {
		body := surfing(turns)
		if res := p.post("/v1/messages", body, "X-Session-Id", "two"); res.StatusCode != http.StatusOK {
			t.Fatalf("status %d", res.StatusCode)
		}
		if got := results(u.last().body); !slices.Equal(got, results(body)) {
			t.Errorf("%d turns: %.300q", turns, got)
		}
		switch turns {
		case 6: // it is asked and does not answer
		case 7:
			close(release)
			until(t, "a text fails", func() bool { return p.metric(failures) > before })
			time.Sleep(shortLife + shortLife/4)
		}
	}
	if got := p.compressor().Get("error").Str; got == "" {
		t.Error("health knows of no error")
	}
}

// TestCompressOnDisk: where folded texts are kept on disk, so is what was found out: after
// a restart nobody is asked again. A folder that cannot be written to costs no request
// anything.
func TestCompressOnDisk(t *testing.T) {
	u := newUpstream(t, answerMessage)
	dir := t.TempDir()
	originals := `{"folder":` + js(filepath.Join(dir, "texts")) + `,"key_file":` + js(filepath.Join(dir, "key")) + `}`
	p := start(t, "respond 204")
	p.keeping(wordy(u, "model "+scorer), originals)
	p.host = "127.0.0.1:80"
	send := func(turns int) string {
		t.Helper()
		if res := p.post("/v1/messages", surfing(turns), "X-Session-Id", "three", "X-Api-Key",
			"secret"); res.StatusCode != http.StatusOK {
			t.Fatalf("status %d", res.StatusCode)
		}
		return u.last().body
	}
	before := p.metric(shortenedTexts)
	send(8)
	until(t, "five texts are shortened", func() bool { return p.metric(shortenedTexts)-before >= 5 })
	p.keeping(wordy(u, "model "+scorer), originals)
	send(8)
	time.Sleep(shortLife + shortLife/4)
	if got := shortened.FindString(results(send(9))[0]); got == "" {
		t.Error("nothing was kept")
	}
	if n := p.metric(shortenedTexts) - before; n != 6 { // the one that is new
		until(t, "the new text is shortened", func() bool { return p.metric(shortenedTexts)-before == 6 })
	}

	if err := os.WriteFile(filepath.Join(dir, "full"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	full := filepath.Join(dir, "gone")
	p.keeping(wordy(u, "model "+scorer), `{"folder":`+js(full)+`,"key_file":`+js(filepath.Join(dir, "key"))+`}`)
	if err := os.WriteFile(full, nil, 0o600); err != nil { // no folder can be made there
		t.Fatal(err)
	}
	before = p.metric(shortenedTexts)
	send(8)
	until(t, "texts are shortened", func() bool { return p.metric(shortenedTexts)-before >= 5 })
	if send(9); u.last().body == "" {
		t.Error("nothing was sent")
	}
}

// TestCompressValidates: a folder that is no model is refused when the configuration is read.
func TestCompressValidates(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := &proxy{t: t, caddy: caddytest.New(t), addr: "127.0.0.1:0", admin: "off"}
	folder := func(change func(dir string) error) string {
		t.Helper()
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(scorer)); err != nil {
			t.Fatal(err)
		}
		if err := change(dir); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for name, c := range map[string]struct{ model, want string }{
		"whole":   {folder(func(string) error { return nil }), ""},
		"missing": {filepath.Join(t.TempDir(), "nowhere"), "config.json: no such file"},
		"truncated": {
			folder(func(dir string) error { return os.Truncate(filepath.Join(dir, "model.safetensors"), 5000) }),
			"model.safetensors",
		},
		"other architecture": {folder(func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "config.json"),
				[]byte(`{"architectures":["GPT2LMHeadModel"],"model_type":"gpt2"}`), 0o600)
		}), "gpt2"},
		"no tokenizer": {
			folder(func(dir string) error { return os.Remove(filepath.Join(dir, "tokenizer.json")) }),
			"tokenizer.json: no such file",
		},
	} {
		var cfg caddy.Config
		if err := json.Unmarshal(p.config(wordy(u, "model "+c.model)), &cfg); err != nil {
			t.Fatal(err)
		}
		err := caddy.Validate(&cfg)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v does not say %q", name, err, c.want)
		}
	}
}
