// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Param is a parameter with different names in different formats.
type Param int

// The parameters.
const (
	MaxTokens Param = iota
	Temperature
	TopP
	TopK
	Seed
	PresencePenalty
	FrequencyPenalty
	UserID
	ServiceTier
	CacheKey
	Verbosity
	TemplateArguments
	ParamCount
)

// extensions are parameters of local servers, by the name that they have in each format.
var extensions = [ParamCount]string{TopK: "top_k", TemplateArguments: "chat_template_kwargs"}

// Param writes a parameter under the format's name.
func (w *Writer) Param(p Param) {
	v := w.Value(p)
	if v == nil {
		return
	}
	name := w.paramName(p)
	name = name[strings.LastIndexByte(name, '.')+1:]
	w.Member(name, v)
}

func (w *Writer) paramName(p Param) string {
	if w.To.Traits().ServersVary && !w.Options.Official {
		switch {
		case p == MaxTokens:
			return "max_tokens" // the name known to every local server
		case extensions[p] != "":
			return extensions[p]
		}
	}
	return w.Rules.Params[p]
}

// DropParam lists a parameter as dropped, by the client's name.
func (w *Writer) DropParam(p Param) {
	w.Drop(cmp.Or(w.Client.Params[p], extensions[p]))
}

// Value returns a parameter in the upstream's range, nil if it is unset or unsupported.
func (w *Writer) Value(p Param) rawjson.Value {
	v := w.Request.Params[p]
	if v == nil {
		if p == CacheKey && w.Options.CacheKey != "" && w.takesCacheKey() && w.Adds() {
			return append(rawjson.AppendEscaped(rawjson.Value(`"`), w.Options.CacheKey), '"')
		}
		return nil
	}
	ok := w.paramName(p) != ""
	switch p {
	case MaxTokens:
		n, number := v.Int()
		// The API rejects a smaller limit.
		if minTokens := w.minTokens(); ok && number && n < minTokens && (n > 0 || w.Request.FillsCache) {
			w.DropParam(p)
			return strconv.AppendInt(nil, int64(minTokens), 10)
		}
		ok = ok && number && n > 0
	case Temperature, TopP, TopK, PresencePenalty, FrequencyPenalty:
		ok = ok && v.IsNumber() && w.dialect.Samples(w, p)
		if n, _ := strconv.ParseFloat(string(v), 64); ok && p == Temperature && w.Rules.MaxTemperature > 0 &&
			n > float64(w.Rules.MaxTemperature) {
			w.DropParam(p)
			return strconv.AppendInt(nil, int64(w.Rules.MaxTemperature), 10)
		}
	case CacheKey:
		// Some hosts of chat completions reject unknown members.
		ok = ok && w.takesCacheKey()
	case UserID:
		ok = ok && v.IsString() && (w.Rules.MaxUser == 0 || len(v) <= w.Rules.MaxUser+2)
	case ServiceTier:
		v = w.dialect.Tier(w, v.Str())
		ok = ok && v != nil
	}
	if !ok {
		w.DropParam(p)
		return nil
	}
	return v
}

// takesCacheKey reports whether the upstream supports prompt_cache_key.
func (w *Writer) takesCacheKey() bool { return w.Rules.Params[CacheKey] != "" && w.Options.Official }

// minTokens returns the upstream's minimum for max_tokens.
func (w *Writer) minTokens() int {
	if w.Rules.MinTokens > 0 && w.Options.Official {
		return w.Rules.MinTokens
	}
	return 1
}

// Stops returns the stop sequences for the upstream, at most limit.
func (w *Writer) Stops(limit int) []rawjson.Text {
	stop := w.Request.Stop
	if len(stop) <= limit {
		return stop
	}
	// The upstream does not get all sequences, so the answer is cut here as well.
	for _, s := range stop {
		w.stop = append(w.stop, s.Decoded())
	}
	return stop[:limit]
}
