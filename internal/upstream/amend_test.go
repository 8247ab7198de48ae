// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// refusing is a server that answers requests with its answers in turn, and repeats the last one.
type refusing struct {
	answers []string // an error's status and body, or "ok"
	bodies  []string // of the requests
}

func (s *refusing) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	answer := s.answers[min(len(s.bodies), len(s.answers)-1)]
	s.bodies = append(s.bodies, string(body))
	if answer == "ok" {
		_, err = io.WriteString(w, answer)
		return err
	}
	w.Header().Set("X-Error", "yes")
	status, text, _ := strings.Cut(answer, " ")
	w.WriteHeader(map[string]int{"400": 400, "404": 404, "429": 429, "500": 500, "503": 503}[status])
	_, err = io.WriteString(w, text)
	return err
}

func amending1(t *testing.T, p *Profile, s *refusing, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
	w := httptest.NewRecorder()
	if err := p.Amend(s, wire.OpenAIChat).ServeHTTP(w, r); err != nil {
		t.Fatal(err)
	}
	return w
}

func profileOf(u *Upstream) *Profile {
	return u.Profile(Options{MaxBody: 1 << 20, Log: zap.NewNop()})
}

const (
	tooMuch = `400 {"error":{"message":"'max_tokens' or 'max_completion_tokens' is too large: 64000. This model's ` +
		`maximum context length is 32768 tokens and your request has 17459 input tokens (64000 > 32768 - 17459).",` +
		`"type":"BadRequestError","code":400}}`
	blind = `500 {"error":{"code":500,"message":"image input is not supported - hint: if this is unexpected, you may ` +
		`need to provide the mmproj","type":"server_error"}}`
	loads = `503 {"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`
)

// TestAmend: a refusal that names the remedy is followed by one more request. Any other refusal
// reaches the client unmodified.
func TestAmend(t *testing.T) {
	const (
		image = `{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}`
		note  = `{"type":"text","text":"[An image was attached here, which this model cannot see.]"}`
	)
	messages := func(part string) string {
		return `"messages": [{"role":"user","content":[{"type":"text","text":"image_url"}, ` + part +
			`]},{"role":"tool","tool_call_id":"c","content":[` + part + `]}]`
	}
	for _, c := range []struct {
		name    string
		preset  *Upstream
		answers []string
		body    string
		want    []string // bodies of requests, "" for the client's
		status  int
	}{
		{
			"max_tokens", &Upstream{Preset: "vllm"},
			[]string{tooMuch, "ok"},
			`{"max_tokens": 64000,"messages":[]}`,
			[]string{"", `{"max_tokens": 15309,"messages":[]}`},
			200,
		},
		{
			"both names", &Upstream{Preset: "vllm"},
			[]string{tooMuch, "ok"},
			`{"max_tokens":64000,"max_completion_tokens":64000}`,
			[]string{"", `{"max_tokens":15309,"max_completion_tokens":15309}`},
			200,
		},
		{
			"a format alone", &Upstream{Format: wire.OpenAIChat},
			[]string{tooMuch, "ok"},
			`{"max_tokens":64000}`,
			[]string{"", `{"max_tokens":15309}`},
			200,
		},
		{
			"room that is not told", &Upstream{Preset: "vllm"},
			[]string{
				`400 {"error":{"message":"This model's maximum context length is 32768 tokens. However, you requested ` +
					`32000 output tokens and your prompt contains at least 769 input tokens, for a total of at least 32769 tokens."}}`,
				"ok",
			},
			`{"a":1,"max_tokens":32000,"messages":[]}`,
			[]string{"", `{"a":1,"messages":[]}`},
			200,
		},
		{
			"once only", &Upstream{Preset: "vllm"},
			[]string{tooMuch},
			`{"max_tokens":64000}`,
			[]string{"", `{"max_tokens":15309}`},
			400,
		},
		{"less asked for than fits", &Upstream{Preset: "vllm"}, []string{tooMuch}, `{"max_tokens":100}`, []string{""}, 400},
		{
			"hardly any room", &Upstream{Preset: "sglang"},
			[]string{`400 {"message":"Requested token count exceeds the model's maximum context length of 131072 tokens. You ` +
				`requested a total of 163000 tokens: 131000 tokens from the input messages and 32000 tokens for the completion."}`},
			`{"max_tokens":32000}`,
			[]string{""},
			400,
		},
		{
			"more than the model writes", &Upstream{Preset: "deepseek"},
			[]string{`400 {"error":{"message":"Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"}}`, "ok"},
			`{"max_tokens":32000}`,
			[]string{"", `{"max_tokens":8192}`},
			200,
		},
		{
			"more than the model writes, in OpenAI's words", &Upstream{Format: wire.OpenAIChat},
			[]string{`400 {"error":{"message":"max_tokens is too large: 32000. This model supports at most 16384 completion ` +
				`tokens, whereas you provided 32000."}}`, "ok"},
			`{"max_completion_tokens":32000}`,
			[]string{"", `{"max_completion_tokens":16384}`},
			200,
		},
		{
			"a prompt that is too long", &Upstream{Preset: "sglang"},
			[]string{`400 {"message":"The input (410089 tokens) is longer than the model's context length (409600 tokens)."}`},
			`{"max_tokens":32000}`,
			[]string{""},
			400,
		},
		{
			"images", &Upstream{Preset: "llama_cpp"},
			[]string{blind, "ok"},
			`{"model":"m",` + messages(image) + `}`,
			[]string{"", `{"model":"m",` + messages(note) + `}`},
			200,
		},
		{
			"no images", &Upstream{Preset: "llama_cpp"},
			[]string{blind},
			`{"model":"m","messages":[{"role":"user","content":"an image"}]}`,
			[]string{""},
			500,
		},
		{
			"an image that is broken", &Upstream{Preset: "llama_cpp"},
			[]string{`400 {"error":{"message":"Failed to decode the image"}}`},
			`{` + messages(image) + `}`,
			[]string{""},
			400,
		},
		{
			"images and max_tokens", &Upstream{Preset: "vllm"},
			[]string{`400 {"error":{"message":"At most 0 image(s) may be provided in one prompt."}}`, tooMuch, "ok"},
			`{"max_tokens":64000,` + messages(image) + `}`,
			[]string{
				"", `{"max_tokens":64000,` + messages(note) + `}`,
				`{"max_tokens":15309,` + messages(note) + `}`,
			},
			200,
		},
		{
			"another error", &Upstream{Preset: "mlx_lm"},
			[]string{`404 {"error":"no such model"}`},
			`{"max_tokens":64000}`,
			[]string{""},
			404,
		},
		{"a limit of rates", &Upstream{Preset: "mlx_lm"}, []string{`429 Loading model`}, `{}`, []string{""}, 429},
		{"a hosted API", &Upstream{Preset: "openai"}, []string{tooMuch}, `{"max_tokens":64000}`, []string{""}, 400},
		{"nothing stated", &Upstream{}, []string{tooMuch}, `{"max_tokens":64000}`, []string{""}, 400},
	} {
		s := &refusing{answers: c.answers}
		w := amending1(t, profileOf(c.preset), s, c.body)
		for i := range c.want {
			if c.want[i] == "" {
				c.want[i] = c.body
			}
		}
		if !slices.Equal(s.bodies, c.want) {
			t.Errorf("%s: got requests\n%s\nwant\n%s", c.name, strings.Join(s.bodies, "\n"), strings.Join(c.want, "\n"))
		}
		want := "ok"
		if c.status != 200 {
			_, want, _ = strings.Cut(c.answers[len(c.answers)-1], " ")
		}
		if w.Code != c.status || w.Body.String() != want || (w.Header().Get("X-Error") != "") != (c.status != 200) {
			t.Errorf("%s: got %d %s with %v, want %d %s", c.name, w.Code, w.Body, w.Header(), c.status, want)
		}
	}
}

// TestBlindModel: images for a model that cannot see images are left out for an hour.
func TestBlindModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := profileOf(&Upstream{Preset: "llama_cpp"})
		const body = `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url",` +
			`"image_url":{"url":"data:image/png;base64,AAAA"}}]}]}`
		for _, c := range []struct {
			after time.Duration
			body  string
			want  int
		}{
			{0, body, 2},
			{blindFor / 2, body, 1},
			{0, strings.Replace(body, `"m"`, `"another"`, 1), 2},
			{blindFor, body, 2},
		} {
			time.Sleep(c.after)
			s := &refusing{answers: []string{"ok"}}
			if c.want == 2 {
				s.answers = []string{blind, "ok"}
			}
			amending1(t, p, s, c.body)
			if len(s.bodies) != c.want || strings.Contains(s.bodies[len(s.bodies)-1], "base64") {
				t.Errorf("after %s: got %d requests, the last with the image: %s; want %d, the last without", c.after,
					len(s.bodies), s.bodies[len(s.bodies)-1], c.want)
			}
		}
	})
}

// TestLoadingModel: a request waits while its server loads the model, within a limit, and as long
// as its client does.
func TestLoadingModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &refusing{answers: []string{loads, loads, loads, "ok"}}
		if w := amending1(t, profileOf(&Upstream{Preset: "llama_cpp"}), s, `{"a":1}`); w.Code != http.StatusOK ||
			len(s.bodies) != 4 || s.bodies[3] != `{"a":1}` {
			t.Errorf("got %d after %d requests, want 200 after 4", w.Code, len(s.bodies))
		}
		began := time.Now()
		s = &refusing{answers: []string{loads}}
		if w := amending1(t, profileOf(&Upstream{Preset: "llama_cpp"}), s, `{}`); w.Code != http.StatusServiceUnavailable ||
			time.Since(began) != maxLoading {
			t.Errorf("a model that never comes: got %d after %s, want the server's 503 after %s", w.Code, time.Since(began),
				maxLoading)
		}
		ctx, leave := context.WithTimeout(t.Context(), 3*time.Second)
		defer leave()
		began = time.Now()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions", strings.NewReader(`{}`))
		w := httptest.NewRecorder()
		_ = profileOf(&Upstream{Preset: "llama_cpp"}).Amend(caddyhttp.HandlerFunc((&refusing{answers: []string{loads}}).ServeHTTP), wire.OpenAIChat).ServeHTTP(w, r)
		if d := time.Since(began); d != 3*time.Second || w.Code != http.StatusServiceUnavailable {
			t.Errorf("a client that leaves: got %d after %s, want the 503 after 3s", w.Code, d)
		}
	})
}
