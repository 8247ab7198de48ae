// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

const (
	// minRoom is the smallest answer, in tokens, for which a request is retried with a lower
	// max_tokens. With less room a client should compact its conversation: Claude Code asks for at
	// least 3000.
	minRoom = 3000
	// loadingPause is the time between two requests to a server that is loading its model. After
	// maxLoading, which equals the queue's timeout, the client gets the server's error.
	loadingPause = time.Second
	maxLoading   = 10 * time.Minute
	// blindFor is how long a model counts as unable to see images. maxBlind bounds the number of
	// such models.
	blindFor = time.Hour
	maxBlind = 128
)

// Kinds of amendments to a refused request.
const (
	amendedLength  = "max_tokens"
	amendedImages  = "images"
	amendedLoading = "loading"
)

var amended = metric.CounterOf("amended_total",
	"Requests that a server had refused and that were sent once more, by what was changed: a lower max_tokens, "+
		"a note for each image, or nothing, as the server was loading its model.", "by", amendedLength, amendedImages,
	amendedLoading)

// loadingModel matches the errors, at status 503, of servers that load a model: llama.cpp, Hugging
// Face.
var loadingModel = regexp.MustCompile(`(?i)\bloading (?:the )?model\b|\bmodel\b.{0,100}\b(?:is|still) (?:currently ` +
	`|being )?load(?:ing|ed)\b`)

// noImages matches the errors of servers with a model that cannot see images: llama.cpp and its old
// versions, LM Studio, Ollama, vLLM, mlx_lm.server.
var noImages = regexp.MustCompile(`(?i)image input is not supported|content part type: \\?"image_url|(?:does ` +
	`not|doesn't) support (?:images?|vision|multimodal)` +
	`|missing data required for image input|is not a (?:multimodal|vision) model|at most 0 image|only 'text' content ` +
	`type is supported`)

// Amend returns next behind a layer that repeats a request after a refusal which names the remedy.
// The layer lowers max_tokens if prompt and answer do not fit the window, or if the model writes no answers as long. It
// replaces each image by a note if the model cannot see images, and waits while the server loads its model.
func (p *Profile) Amend(next caddyhttp.Handler, client wire.Format) caddyhttp.Handler {
	if p.Upstream == nil || p.Formats == nil || p.Official() || p.Stateful() {
		return next
	}
	return &amending{p: p, next: next, format: p.Target(client)}
}

type amending struct {
	p      *Profile
	next   caddyhttp.Handler
	format wire.Format // the upstream's
}

// ServeHTTP implements caddyhttp.Handler.
func (d *amending) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	body, err := httpx.OutgoingEdits(r, d.p.MaxBody)
	if err != nil {
		return d.next.ServeHTTP(w, r) //nolint:nilerr // what is not understood passes untouched
	}
	t := &amendment{amending: d, request: r, body: body, model: gjson.GetBytes(body.Raw, "model").Str, began: time.Now()}
	// Spare a model known to be blind the refusal.
	if d.p.blind.has(t.model) {
		httpx.Guard(d.p.Log, "leaving images out", func() { t.leaveImagesOut() })
	}
	return httpx.Retry(w, r, t)
}

func waits(r *http.Request) bool {
	select {
	case <-r.Context().Done():
		return false
	case <-time.After(loadingPause):
		return true
	}
}

type amendment struct {
	*amending
	request *http.Request // the client's
	body    *wire.Body
	model   string
	began   time.Time
	by      map[string]bool // kinds of amendments so far
}

// ServeHTTP implements [httpx.Retrier].
func (t *amendment) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	defer httpx.SwapEdited(r, t.body.Raw, t.body)() // keep the memory: the next attempt may be built from this body
	return t.next.ServeHTTP(w, r)
}

// Judge implements [httpx.Judge].
func (t *amendment) Judge(a *httpx.Attempt) httpx.Verdict {
	switch {
	case a.Err != nil, a.Status == http.StatusUnauthorized, a.Status == http.StatusForbidden,
		a.Status == http.StatusTooManyRequests:
		// No edit remedies an authentication error or a rate limit.
		return httpx.Accept
	case a.Status < http.StatusBadRequest:
		// Success without images confirms that the model cannot see them.
		if t.by[amendedImages] && a.Status/100 == 2 {
			t.p.blind.add(t.model)
		}
		return httpx.Accept
	case !a.Gathered:
		return httpx.Wait
	case len(a.Body) > httpx.MaxError: // too long for an error that names a remedy
		return httpx.Accept
	}
	by := ""
	httpx.Guard(t.p.Log, "amending a refused request", func() {
		by = t.amend(t.format, httpx.ReadFailure(t.format, a.Status, a.Header(), a.Body))
	})
	if by == "" || by == amendedLoading && !waits(t.request) {
		return httpx.Accept
	}
	if !t.by[by] { // a server that loads its model gets the same request many times
		amended.WithLabelValues(by).Inc()
		t.p.Log.Info("sending a refused request once more", zap.String("change", by), zap.String("model", t.model),
			zap.Int("status", a.Status))
	}
	t.note(by)
	return httpx.Reject
}

func (t *amendment) note(by string) {
	if t.by == nil {
		t.by = map[string]bool{}
	}
	t.by[by] = true
}

// amend changes the request as the server's error demands and returns the kind of change.
func (t *amendment) amend(format wire.Format, f *translate.Failure) string {
	room, exceeded := f.Room()
	switch {
	case f.Status == http.StatusServiceUnavailable && loadingModel.MatchString(f.Message):
		if time.Since(t.began) < maxLoading {
			return amendedLoading
		}
	case exceeded:
		unbounded := room == 0 && format.Traits().ServersVary // vLLM fits an unbounded answer into the window
		if !t.by[amendedLength] && (unbounded || room >= min(minRoom, f.Window()/4)) && t.shorten(room) {
			return amendedLength
		}
	case !t.by[amendedLength] && f.MaxAnswer() > 0:
		if t.shorten(f.MaxAnswer()) {
			return amendedLength
		}
	case noImages.MatchString(f.Message):
		if !t.by[amendedImages] && t.leaveImagesOut() {
			return amendedImages
		}
	}
	return ""
}

// shorten lowers the answer's bound to the room left in the window.
func (t *amendment) shorten(room int64) bool {
	body := t.body.Bytes()
	var members []wire.Member
	for _, name := range [...]string{"max_tokens", "max_completion_tokens", "max_output_tokens"} {
		// An absent member counts as 0 and stays absent.
		if gjson.GetBytes(body, name).Int() <= room {
			continue
		}
		m := wire.Member{Name: name}
		// No room means that the server fits an unbounded answer itself.
		if room > 0 {
			m.Value = strconv.AppendInt(nil, room, 10)
		}
		members = append(members, m)
	}
	if members == nil {
		return false
	}
	out, err := wire.Patch(body, members...)
	if err != nil {
		return false
	}
	t.body = &wire.Body{Raw: out}
	return true
}

// imageParts maps the types of image parts to the types of text parts that replace them.
var imageParts = map[string]string{"image_url": "text", "image": "text", "input_image": "input_text"}

func (t *amendment) leaveImagesOut() bool {
	body := t.body.Bytes()
	// Most bodies have no images and need no parsing.
	if !bytes.Contains(body, []byte(`image`)) {
		return false
	}
	root := gjson.ParseBytes(body)
	cuts := imageCuts(root.Get("input"), imageCuts(root.Get("messages"), nil))
	out, err := wire.NewBody(body, cuts...)
	if len(cuts) == 0 || err != nil {
		return false
	}
	t.body = out
	return true
}

func imageCuts(parts gjson.Result, cuts []wire.Cut) []wire.Cut {
	if !parts.IsArray() {
		return cuts
	}
	parts.ForEach(func(_, part gjson.Result) bool {
		if text, is := imageParts[part.Get("type").Str]; is {
			note := `{"type":"` + text + `","text":"[An image was attached here, which this model cannot see.]"}`
			cuts = append(cuts, wire.Cut{Start: int32(part.Index), End: int32(part.Index + len(part.Raw)), With: []byte(note)})
			return true
		}
		cuts = imageCuts(part.Get("output"), imageCuts(part.Get("content"), cuts))
		return true
	})
	return cuts
}

type blindModels struct {
	mu    sync.Mutex
	until map[string]time.Time
}

func (b *blindModels) has(model string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Before(b.until[model])
}

func (b *blindModels) add(model string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// Start over when full: each forgotten model costs one refused request.
	if b.until == nil || len(b.until) >= maxBlind {
		b.until = map[string]time.Time{}
	}
	// The hour counts from the first refusal, so that an updated model is tried again in time.
	if !time.Now().Before(b.until[model]) {
		b.until[model] = time.Now().Add(blindFor)
	}
}
