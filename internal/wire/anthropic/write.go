// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package anthropic

import (
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// writer writes requests.
type writer struct {
	*translate.Writer
	// surplus is the number of markers still to omit. short tells that a marker with the short
	// lifetime was written.
	surplus int
	short   bool
}

func (w *writer) request() error {
	q := w.Request
	if w.forced() && len(w.Tools) > 0 && claudeOf(w.Model).refusesForced() {
		return &translate.Unsupported{Field: w.Client.Choice, Reason: "this model cannot be made to call a tool"}
	}
	w.Str("model", w.Model)
	limit, thinking := w.thinking()
	w.Int("max_tokens", limit)
	if thinking == nil || thinking.off {
		w.Param(translate.Temperature)
		w.Param(translate.TopP)
		w.Param(translate.TopK)
	} else {
		for _, p := range []translate.Param{translate.Temperature, translate.TopP, translate.TopK} {
			if q.Params[p] != nil {
				w.DropParam(p) // the API refuses sampling parameters with thinking
			}
		}
	}
	for p := range translate.ParamCount {
		if w.Rules.Params[p] == "" {
			w.Value(p) // reports the parameter as dropped
		}
	}
	if stop := w.stops(); len(stop) > 0 {
		w.Texts("stop_sequences", stop)
	}
	if user := w.Value(translate.UserID); user != nil {
		w.Member("metadata", append(append(rawjson.Value(`{"user_id":`), user...), '}'))
	}
	w.Param(translate.ServiceTier)
	w.output(thinking)
	if w.marksItself() && w.Adds() {
		if marker := rawjson.Value(`{"type":"ephemeral"}`); w.Options.Official {
			w.Member("cache_control", marker)
		} else { // other hosts take markers on blocks only
			w.markLast(marker)
		}
	}
	if q.Stream {
		w.Bool("stream", true)
	}
	w.surplus = w.marks() - maxMarkers
	w.tools()
	if system := w.System(); len(system) > 0 {
		w.Key("system")
		w.Open('[')
		for _, p := range system {
			w.text(p)
		}
		w.Close(']')
	}
	w.Key("messages")
	w.Open('[')
	if err := w.EachMessage(w.message); err != nil {
		return err
	}
	w.Close(']')
	return nil
}

// stops returns the stop sequences to send.
func (w *writer) stops() []rawjson.Text {
	all := w.Request.Stop
	// The provider refuses stop sequences of only white space. The translation stops the answer at
	// them instead.
	sent := slices.DeleteFunc(slices.Clone(all), func(s rawjson.Text) bool { return strings.TrimSpace(s.Decoded()) == "" })
	if len(sent) == len(all) || !w.Options.Official {
		return all
	}
	w.Stops(0)
	return sent
}

// thinking is the thinking setting of a request to a Claude model.
type thinking struct {
	off    bool
	budget int // 0 for adaptive
	effort string
}

// thinking returns max_tokens and the thinking setting, nil for the model's default.
func (w *writer) thinking() (limit int, t *thinking) {
	limit = w.Options.AnswerLimit()
	given := false
	if v := w.Value(translate.MaxTokens); v != nil {
		limit, _ = v.Int()
		given = true
	}
	g, model := w.Request.Reasoning, claudeOf(w.Model)
	field := w.Client.Reasoning
	switch {
	case g.Mode == "":
		return limit, nil
	case g.Mode == "off":
		if model.alwaysThinks() {
			w.Drop(field)
			return limit, nil
		}
		return limit, &thinking{off: true}
	case model.adaptive():
		if !given {
			limit += max(g.AsBudget(), translate.BudgetHigh) // max_tokens includes thinking
		}
		return limit, &thinking{effort: translate.KnownEffort(g.AsEffort(), "low", "medium", "high", "xhigh", "max")}
	}
	budget := g.AsBudget()
	if budget == 0 {
		budget = translate.BudgetMedium
	}
	if !given {
		limit += budget
	}
	budget = min(budget, limit-1)
	if budget < 1024 || w.forced() || w.inLoopWithoutThinking() {
		w.Drop(field)
		return limit, nil
	}
	return limit, &thinking{budget: budget}
}

// forced reports whether the client forces a tool call. The API takes no thinking budget then.
func (w *writer) forced() bool { return w.Request.Choice.Mode == "any" }

// inLoopWithoutThinking reports whether the API takes no thinking budget for a tool loop.
func (w *writer) inLoopWithoutThinking() bool {
	n := len(w.Messages)
	for n > 0 && w.Messages[n-1].Role == translate.System {
		n--
	}
	if n == 0 || w.Messages[n-1].Parts[0].Kind != translate.ResultPart {
		return false
	}
	w.DependsOnAll()
	latest := true
	for _, m := range slices.Backward(w.Messages[:n]) {
		switch {
		case m.Role == translate.Assistant:
			// Both the first and the latest call need the thinking before them.
			if m.Parts[0].Kind != translate.ThinkingPart {
				return true
			}
			latest = false
		case m.Role == translate.User && !latest && m.Parts[0].Kind != translate.ResultPart:
			return false
		}
	}
	return false
}

func (w *writer) output(t *thinking) {
	o := w.Request.Output
	if o.Kind == "json" || o.Kind == "schema" && o.Schema == nil {
		w.Drop(w.Client.Output)
		o.Kind = ""
	}
	if t != nil {
		w.Key("thinking")
		switch {
		case t.off:
			w.Body = append(w.Body, `{"type":"disabled"}`...)
		case t.budget > 0:
			w.Body = append(strconv.AppendInt(append(w.Body, `{"type":"enabled","budget_tokens":`...), int64(t.budget), 10), '}')
		case w.Request.Reasoning.Show:
			w.Body = append(w.Body, `{"type":"adaptive","display":"summarized"}`...)
		default:
			w.Body = append(w.Body, `{"type":"adaptive"}`...)
		}
	}
	if t != nil && t.effort != "" || o.Kind != "" {
		w.Key("output_config")
		w.Open('{')
		if t != nil && t.effort != "" {
			w.Str("effort", t.effort)
		}
		if o.Kind != "" {
			w.Key("format")
			w.Open('{')
			w.Str("type", "json_schema")
			if w.Options.Official {
				o.Schema = answerSchema(o.Schema, func(member string) { w.Drop(w.Client.Output + ".schema." + member) })
			}
			w.Member("schema", o.Schema)
			w.Close('}')
		}
		w.Close('}')
	}
}

// marksItself reports whether the request asks the provider to mark the last block.
func (w *writer) marksItself() bool {
	// Clients of formats without markers could cache nothing otherwise.
	if !w.Options.Official && !w.Options.Marks {
		return false
	}
	// A single question is not worth the price of a cache write.
	talks := len(w.Tools) > 0
	for _, m := range w.Messages {
		talks = talks || m.Role == translate.Assistant
		for _, p := range m.Parts {
			if p.Cache != nil {
				return false
			}
		}
	}
	for _, p := range w.Request.System {
		if p.Cache != nil {
			return false
		}
	}
	return talks
}

func (w *writer) tools() {
	c := w.Request.Choice
	if len(w.Tools) == 0 {
		return
	}
	w.Key("tools")
	w.Open('[')
	w.EachTool(func(t translate.Tool) {
		description, schema := w.Function(t)
		w.Open('{')
		w.Str("name", w.Names.Upstream(t.ToolName))
		if !description.Empty() {
			w.Text("description", description)
		}
		w.Member("input_schema", translate.ObjectSchema(schema))
		if t.Strict.IsTrue() {
			w.Bool("strict", true)
		}
		w.mark(t.Cache)
		w.Close('}')
	})
	w.Close(']')
	if c.Mode == "" && !c.Single {
		return
	}
	w.Key("tool_choice")
	w.Open('{')
	switch {
	case c.Mode == "any" && len(c.Tools) == 1:
		w.Str("type", "tool")
		w.Str("name", w.Names.Upstream(c.Tools[0]))
	case c.Mode == "":
		w.Str("type", "auto")
	default:
		w.Str("type", c.Mode)
	}
	if c.Single && c.Mode != "none" {
		w.Bool("disable_parallel_tool_use", true)
	}
	w.Close('}')
}

func (w *writer) text(p translate.Part) {
	if p.Text.Empty() {
		return
	}
	w.Open('{')
	w.Str("type", "text")
	w.Text("text", p.Text)
	w.mark(p.Cache)
	w.Close('}')
}

func (w *writer) message(m translate.Message) error {
	w.Open('{')
	switch m.Role {
	case translate.User:
		w.Str("role", "user")
	case translate.Assistant:
		w.Str("role", "assistant")
	case translate.System:
		w.Str("role", "system")
	}
	w.Key("content")
	w.Open('[')
	// The API demands results before the user message's other blocks.
	if m.Role == translate.User {
		for _, p := range m.Parts {
			if p.Kind == translate.ResultPart {
				if err := w.part(p); err != nil {
					return err
				}
			}
		}
	}
	for _, p := range m.Parts {
		if p.Kind == translate.ResultPart {
			continue
		}
		if err := w.part(p); err != nil {
			return err
		}
	}
	w.Close(']')
	w.Close('}')
	return nil
}

func (w *writer) part(p translate.Part) error {
	switch p.Kind {
	case translate.TextPart:
		w.text(p)
	case translate.ThinkingPart:
		w.Open('{')
		if w.Native(p) && p.Sealed.Redacted {
			w.Str("type", "redacted_thinking")
			w.Str("data", p.Sealed.Data)
		} else {
			w.Str("type", "thinking")
			w.Text("thinking", p.Text)
			signature := ""
			if w.Native(p) {
				signature = p.Sealed.Data
			}
			w.Str("signature", signature)
		}
		w.Close('}')
	case translate.CallPart:
		w.Open('{')
		w.Str("type", "tool_use")
		w.Str("id", w.CallID(p.ID))
		w.Str("name", w.Names.Upstream(p.Tool))
		w.Member("input", w.Arguments(p))
		w.mark(p.Cache)
		w.Close('}')
	case translate.ResultPart:
		w.Open('{')
		w.Str("type", "tool_result")
		w.Str("tool_use_id", w.CallID(p.ID))
		if err := w.result(p); err != nil {
			return err
		}
		if p.Failed && !hasMedia(p) {
			w.Bool("is_error", true)
		}
		w.mark(p.Cache)
		w.Close('}')
	case translate.MediaPart:
		return w.media(p)
	}
	return nil
}

// hasMedia reports whether a result contains media. The API refuses media in a result with is_error.
func hasMedia(p translate.Part) bool {
	return slices.ContainsFunc(p.Content, func(c translate.Part) bool { return c.Kind == translate.MediaPart })
}

func (w *writer) result(p translate.Part) error {
	if p.Failed && hasMedia(p) {
		// The text stands in for is_error.
		p.Content = slices.Insert(slices.Clone(p.Content), 0,
			translate.Part{Kind: translate.TextPart, Text: rawjson.Text("The tool has failed:")})
	}
	if len(p.Content) == 0 {
		return nil
	}
	w.Key("content")
	if len(p.Content) == 1 && p.Content[0].Kind == translate.TextPart && p.Content[0].Cache == nil {
		w.Body = append(append(append(w.Body, '"'), p.Content[0].Text...), '"')
		return nil
	}
	w.Open('[')
	for _, c := range p.Content {
		if err := w.part(c); err != nil {
			return err
		}
	}
	w.Close(']')
	return nil
}

// images are the media types of images that the API accepts:
// https://platform.claude.com/docs/en/build-with-claude/vision
var images = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

func (w *writer) media(p translate.Part) error {
	if t, ok := translate.Textual(p); ok {
		w.text(t)
		return nil
	}
	m := p.Media
	kind := "document"
	switch {
	case m.Data.Empty() && strings.HasPrefix(m.Type, "image/"), slices.Contains(images, m.Type):
		kind = "image"
	case m.Type != "application/pdf":
		w.text(translate.Part{Text: w.Note(p), Cache: p.Cache})
		return nil
	}
	w.Open('{')
	w.Str("type", kind)
	w.Key("source")
	w.Open('{')
	if m.Data.Empty() {
		w.Str("type", "url")
		w.Text("url", m.URL)
	} else {
		w.Str("type", "base64")
		w.Str("media_type", m.Type)
		w.Text("data", m.Data)
	}
	w.Close('}')
	if kind == "document" && !m.Name.Empty() {
		w.Text("title", m.Name)
	}
	w.mark(p.Cache)
	w.Close('}')
	return nil
}
