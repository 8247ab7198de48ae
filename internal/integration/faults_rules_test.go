// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// outcome is what a client gets.
type outcome struct {
	refused bool // no answer at all: the connection was closed
	hints   []int
	status  int
	header  http.Header
	body    string
	cut     bool
	trailer string
}

// unlike are headers in which two answers may differ.
var unlike = map[string]bool{
	"Date": true, "Content-Length": true, "Content-Type": true, "Trailer": true,
	"Server": true,
}

// kind is the Content-Type, but for one that net/http guesses: it does so where the
// upstream names none and the first bytes come before reverse_proxy's first flush,
// which a timer of its own sends.
func (o outcome) kind() string {
	kind := o.header.Get("Content-Type")
	if kind == http.DetectContentType([]byte(o.body)) {
		return ""
	}
	return kind
}

// same reports whether a client gets the same, but for the length's being said.
func (o outcome) same(b outcome) (bool, string) {
	switch {
	case o.refused != b.refused:
		return false, fmt.Sprintf("refused %t, %t", b.refused, o.refused)
	case o.status != b.status:
		return false, fmt.Sprintf("status %d, %d", b.status, o.status)
	case o.cut != b.cut:
		return false, fmt.Sprintf("cut %t, %t", b.cut, o.cut)
	case o.body != b.body:
		n := 0
		for n < min(len(b.body), len(o.body)) && b.body[n] == o.body[n] {
			n++
		}
		return false, fmt.Sprintf("at %d, of %d and %d: %.300q, %.300q", n, len(b.body), len(o.body), b.body[n:], o.body[n:])
	case fmt.Sprint(o.hints) != fmt.Sprint(b.hints):
		return false, fmt.Sprintf("hints %v, %v", b.hints, o.hints)
	case o.trailer != b.trailer:
		return false, fmt.Sprintf("trailer %q, %q", b.trailer, o.trailer)
	}
	if o.kind() != b.kind() {
		return false, fmt.Sprintf("Content-Type %q, %q", b.header["Content-Type"], o.header["Content-Type"])
	}
	for name := range b.header {
		if unlike[name] {
			continue
		}
		if fmt.Sprint(o.header[name]) != fmt.Sprint(b.header[name]) {
			return false, fmt.Sprintf("%s %q, %q", name, b.header[name], o.header[name])
		}
	}
	for name := range o.header {
		if !unlike[name] && !strings.HasPrefix(name, "X-Llm-Cache") && b.header[name] == nil {
			return false, fmt.Sprintf("%s %q is new", name, o.header[name])
		}
	}
	return true, ""
}

// turnIn is what a client of a format reads in an answer.
func turnIn(f wire.Format, stream bool, body string, cut bool) *wire.Turn {
	d := wire.NewDecoder(f, stream)
	d.Feed([]byte(strings.TrimPrefix(body, "\xEF\xBB\xBF")))
	if !cut {
		d.End()
	}
	return d.Turn()
}

// isGood reports whether a turn is an answer of a model that came to its end.
func isGood(t *wire.Turn) bool { return t.Done && !t.Failed() && t.StopReason != "" }

// isErrorOf reports whether a body is an error as a format's API words it.
func isErrorOf(f wire.Format, body string) bool {
	if !gjson.Valid(body) {
		return false
	}
	e := gjson.Parse(body).Get("error")
	switch f {
	case wire.Anthropic:
		return gjson.Get(body, "type").Str == "error" && e.Get("type").Str != "" && e.Get("message").Str != ""
	case wire.Interactions:
		return e.Get("code").Str != "" && e.Get("message").Str != ""
	case wire.Gemini:
		return e.Get("code").Int() > 0 && e.Get("status").Str != "" && e.Get("message").Str != ""
	}
	return e.Get("message").Str != "" && e.Get("type").Str != ""
}

// spoken is a turn without what formats name in their own ways.
func spoken(t *wire.Turn) string {
	out := fmt.Sprintf("%q", strings.ToValidUTF8(t.Text, "\uFFFD"))
	for _, c := range t.Calls {
		out += fmt.Sprintf(" %s(%s)", c.Name, c.Arguments)
	}
	return out
}

// A difference from bare Caddy is explained by one of these rules.
const (
	ruleSame       = "the same as bare Caddy"
	ruleNoLength   = "the same, in chunks"
	ruleUnpacked   = "unpacked: the client gets what was packed"
	ruleUnpackCut  = "unpacked, and cut where the packing is broken"
	ruleWords      = "no answer: said in the API's words"
	ruleNoHints    = "a box's informational answers stay behind"
	ruleWholeCalls = "calls are sent whole"
	ruleReframed   = "an event in a form of its own is written anew"
	ruleTranslated = "the same turn, translated"
	ruleError      = "the upstream's error, translated"
	ruleNoAnswer   = "no answer of a model: an error of the client's API"
	ruleStreamCut  = "a stream that lacks its end lacks it translated"
	ruleEventError = "an error in the client's stream"
)

// explainNative names the rule by which a site in the client's own format differs
// from bare Caddy.
func explainNative(site faultSite, f wire.Format, stream bool, bare, got outcome) (rule, why string) {
	ok, why := got.same(bare)
	if ok {
		if bare.header.Get("Content-Length") != "" && got.header.Get("Content-Length") == "" && !got.cut {
			return ruleNoLength, ""
		}
		return ruleSame, ""
	}
	if len(bare.hints) > len(got.hints) && site.box {
		bare.hints = nil
		if _, why := explainNative(site, f, stream, bare, got); why == "" {
			return ruleNoHints, ""
		}
	}
	if bare.status >= 502 && bare.status <= 504 && bare.body == "" && got.status == bare.status &&
		isErrorOf(f, got.body) && !got.cut {
		return ruleWords, ""
	}
	if coding := bare.header.Get("Content-Encoding"); (coding == "gzip" || coding == "zstd") &&
		got.header.Get("Content-Encoding") == "" && got.status == bare.status {
		plain, err := unpackedBody(coding, bare.body)
		unpacked := bare
		unpacked.header = bare.header.Clone()
		unpacked.header.Del("Content-Encoding")
		unpacked.body, unpacked.cut = plain, bare.cut || err != nil
		if unpacked.cut && got.cut && strings.HasPrefix(plain, got.body) {
			return ruleUnpackCut, ""
		}
		if rule, why := explainNative(site, f, stream, unpacked, got); why == "" {
			if rule == ruleSame || rule == ruleNoLength {
				rule = ruleUnpacked
			}
			return rule, ""
		}
	}
	if got.status == bare.status && got.cut == bare.cut && (stream || mediaOf(got) == "text/event-stream") &&
		(site.whole || site.reads) {
		b, g := turnIn(f, true, bare.body, bare.cut), turnIn(f, true, got.body, got.cut)
		if b.Done != g.Done || b.Failed() != g.Failed() || b.Text != g.Text || b.Done && spoken(b) != spoken(g) {
			return "", why
		}
		if site.whole {
			return ruleWholeCalls, ""
		}
		return ruleReframed, ""
	}
	return "", why
}

// explainTranslated names the rule by which a client gets what it gets of an answer
// in another format, of which bare is what bare Caddy gives.
func explainTranslated(to, f wire.Format, stream bool, bare, got outcome) (rule, why string) {
	if bare.refused && got.refused {
		return ruleSame, ""
	}
	if ok, _ := got.same(bare); ok && bare.status == 200 && bare.body == "" && mediaOf(bare) == "" { // nobody answered
		return ruleSame, ""
	}
	proper := isErrorOf(f, got.body) && !got.cut && mediaOf(got) == "application/json"
	if got.status >= 400 && !proper {
		return "", fmt.Sprintf("no proper error: %d %.300q, bare %d %.200q", got.status, got.body, bare.status, bare.body)
	}
	if bare.status == http.StatusNoContent || bare.status == http.StatusResetContent {
		if got.status != http.StatusBadGateway {
			return "", fmt.Sprintf("status %d without an answer became %d, not 502", bare.status, got.status)
		}
		return ruleNoAnswer, ""
	}
	if bare.status/100 == 3 {
		if ok, why := got.same(bare); !ok {
			return "", why
		}
		return ruleSame, ""
	}
	if bare.status >= 400 {
		if bare.body == "" && bare.status >= 502 && bare.status <= 504 && got.status == bare.status {
			return ruleWords, ""
		}
		if got.status/100 != bare.status/100 && bare.status <= 599 {
			return "", fmt.Sprintf("status %d became %d", bare.status, got.status)
		}
		if got.header.Get("Retry-After") != bare.header.Get("Retry-After") {
			return "", "Retry-After is lost"
		}
		return ruleError, ""
	}
	body := bare.body
	if coding := bare.header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		var err error
		body, err = unpackedBody(coding, bare.body) // as far as it goes
		bare.cut = bare.cut || err != nil
	}
	up := turnIn(to, stream, body, bare.cut)
	if !up.Done && !bare.cut && stream {
		if doc := turnIn(to, false, body, false); doc.Done {
			up = doc
		}
	} else if !stream && strings.HasPrefix(body, "event:") || strings.HasPrefix(body, "data:") {
		up = turnIn(to, true, body, bare.cut)
	}
	if got.status >= 400 {
		if isGood(up) && !bare.cut {
			return "", fmt.Sprintf("a good answer became %d %.300q", got.status, got.body)
		}
		return ruleNoAnswer, ""
	}
	mine := turnIn(f, stream, got.body, got.cut)
	switch {
	case mine.Failed():
		if isGood(up) && !bare.cut {
			return "", fmt.Sprintf("a good answer became an error: %.300q of %.300q", got.body, bare.body)
		}
		return ruleEventError, ""
	case mine.Done && up.Done && spoken(mine) == spoken(up) && got.cut == bare.cut:
		return ruleTranslated, ""
	case mine.Done:
		return "", fmt.Sprintf("%s of %s (done %t, %s): %.400q of %.400q", spoken(mine), spoken(up), up.Done, up.ErrorMessage,
			got.body, bare.body)
	case !stream && !got.cut:
		return "", fmt.Sprintf("neither an answer nor an error: %d %.300q of %.300q", got.status, got.body, bare.body)
	case isGood(up) && !bare.cut:
		return "", fmt.Sprintf("a good answer lost its end: %.500q of %.500q", got.body, bare.body)
	}
	return ruleStreamCut, ""
}

func mediaOf(o outcome) string {
	kind, _, _ := strings.Cut(o.header.Get("Content-Type"), ";")
	return kind
}
