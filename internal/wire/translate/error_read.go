// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// maxMessage is the maximum length of a message copied from a non-JSON error, such as a proxy's
// page.
const maxMessage = 1 << 10

// ReadFailure reads the body of an upstream's error in any form: the format's own, a bare string,
// {"detail": …} or text.
func ReadFailure(from wire.Format, status int, body []byte) *Failure {
	text := strings.TrimSpace(strings.ToValidUTF8(string(body), "\uFFFD"))
	if strings.HasPrefix(text, "[") { // a stream of gemini without alt=sse
		if rawjson.Valid(text) {
			text = gjson.Parse(text).Get("0").Raw
		}
	}
	if rawjson.ValidObject(text) {
		f := readFailure(from, status, gjson.Parse(text))
		f.complete()
		return f
	}
	if strings.HasPrefix(text, "<") {
		text = "" // an HTML page
	}
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "")
	}
	f := &Failure{Status: status, Message: text}
	f.complete()
	return f
}

// readFailure reads an error object, or an object that contains one.
func readFailure(from wire.Format, status int, root gjson.Result) *Failure {
	f := &Failure{Status: status}
	e := root.Get("error")
	switch {
	case e.IsObject():
	case e.Type == gjson.String:
		f.Message = strings.Clone(e.Str)
		return f
	default:
		e = root
	}
	f.Type, f.Code = word(e.Get("type")), word(e.Get("code"))
	if dialectOf(from).rules.Status {
		f.Type = word(e.Get("status"))
	}
	if f.Type == "error" { // the name of the stream event
		f.Type = ""
	}
	if n, err := strconv.Atoi(f.Code); err == nil { // some servers repeat the status as code
		f.Code = ""
		if f.Status == 0 && n >= 400 && n < 600 {
			f.Status = n
		}
	}
	for _, name := range [...]string{"message", "detail", "msg"} {
		if m := e.Get(name); m.Exists() && m.Type != gjson.Null {
			f.Message = strings.Clone(m.String())
			break
		}
	}
	f.tokens, f.limit = e.Get("n_prompt_tokens").Int(), e.Get("n_ctx").Int()
	e.Get("details").ForEach(func(_, d gjson.Result) bool {
		if delay, err := time.ParseDuration(d.Get("retryDelay").Str); err == nil && delay > 0 && delay < 24*time.Hour {
			f.RetryAfter = int(math.Ceil(delay.Seconds()))
		}
		return true
	})
	return f
}

func word(r gjson.Result) string {
	if r.Type != gjson.String && r.Type != gjson.Number {
		return ""
	}
	return strings.Clone(r.String())
}
