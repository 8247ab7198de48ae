// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/anthropic"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/bedrock"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/gemini"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/vertex"
)

// schemaRepair rewrites the schemas for which an API refuses a whole request. All other schemas keep
// their bytes. Its functions call drop with the path of each member that the rewrite omits.
type schemaRepair struct {
	// tool returns a tool definition that the API takes, or the definition itself.
	tool func(definition rawjson.Value, drop func(path string)) rawjson.Value
	// output returns the cut for the value of [wire.Reply.OutputConfig], false for none.
	output func(body []byte, value rawjson.Span, drop func(path string)) (wire.Cut, bool)
	// outputMark is a part of each such value with a schema.
	outputMark []byte
}

// schemaRepairs holds the repairs by preset and by format of the requests. An API without an entry takes
// every schema, or its refusals are unknown.
var schemaRepairs = map[string]map[wire.Format]*schemaRepair{
	"anthropic": {wire.Anthropic: messagesSchemas},
	"vertex":    {vertex.Format: messagesSchemas},
	"bedrock":   {bedrock.Format: messagesSchemas},
	// "Invalid JSON payload received. Unknown name \"$schema\" at
	// 'tools[0].function_declarations[0].parameters': Cannot find field."
	"gemini": {wire.Gemini: {tool: geminiTool, output: geminiOutput}},
	"openai": openAISchemas,
	"azure":  openAISchemas,
	// "Invalid schema for function 'f': schema must be a JSON Schema of 'type: \"object\"', got 'type:
	// null'." (vercel/ai 7924)
	"deepseek": {wire.OpenAIChat: {tool: chatTool(chatSchema{refuses: untyped})}},
	// "Invalid discriminator value. Expected 'object'" for the type, "Required" for properties, "Expected
	// boolean, received null" for strict (DeepSeek-Reasonix 5167, pi 598).
	"lm_studio": {wire.OpenAIChat: {tool: chatTool(chatSchema{strict: true, refuses: func(v rawjson.Value) bool {
		return untyped(v) || !v.Member("properties").IsObject()
	}})}},
	// "when using anyOf, type should be defined in anyOf items instead of the parent schema", "items must be
	// an object", "parameters.type is required and must be \"object\"" (vercel/ai 18921, kimi-code 2661).
	"moonshot": {wire.OpenAIChat: {tool: chatTool(chatSchema{refuses: untyped, nested: moonshotSchema})}},
	// A function without parameters (dirac-run/dirac 58).
	"xai": {wire.OpenAIChat: {tool: chatTool(chatSchema{
		refuses: func(v rawjson.Value) bool { return v.Absent() },
		missing: true,
	})}},
}

// messagesSchemas is the repair of Claude's APIs: "input_schema does not support oneOf, allOf, or anyOf
// at the top level", "input_schema.type: Field required" (claude-code 5973, ogx 6017).
var messagesSchemas = &schemaRepair{tool: messagesTool, output: messagesOutput, outputMark: []byte(`"schema"`)}

// openAISchemas is the repair of OpenAI's APIs: "schema must have type 'object' and not have
// 'oneOf'/'anyOf'/'allOf'/'enum'/'const'/'not' at the top level" (langchainjs 9804, home-generative-agent 545).
var openAISchemas = map[wire.Format]*schemaRepair{
	wire.OpenAIChat:      {tool: chatTool(openAISchema)},
	wire.OpenAIResponses: {tool: responsesTool},
}

var openAISchema = chatSchema{refuses: func(v rawjson.Value) bool {
	for name := range v.Members() {
		switch name {
		case "anyOf", "oneOf", "allOf", "enum", "const", "not":
			return true
		}
	}
	return false
}}

// alternatives are the members of a schema that combine other schemas.
var alternatives = [...]string{"anyOf", "oneOf", "allOf"}

// untyped reports whether a schema lacks the type "object". A list of types with it, as of a value
// that may be null, is no such type. Any other type is the client's mistake.
func untyped(v rawjson.Value) bool {
	kind := v.Member("type").Used()
	if kind.IsArray() {
		for _, k := range kind.Elements() {
			if k.Str() == "object" {
				return true
			}
		}
	}
	return kind == nil
}

// listAlternatives calls drop with the path of each combination at the top of a schema.
func listAlternatives(v rawjson.Value, path string, drop func(string)) {
	for _, name := range alternatives {
		if v.Member(name).Used() != nil {
			drop(path + "." + name)
		}
	}
}

// withMember returns an object with one member replaced or added, or the object itself.
func withMember(object rawjson.Value, name string, value rawjson.Value) rawjson.Value {
	out, err := wire.Patch(object, wire.Member{Name: name, Value: value})
	if err != nil {
		return object
	}
	return out
}

func messagesTool(definition rawjson.Value, drop func(string)) rawjson.Value {
	const member = "input_schema"
	schema := definition.Member(member)
	// The provider's own tools have no schema, and a schema of another type is the client's mistake.
	if !schema.IsObject() {
		return definition
	}
	combined := slices.ContainsFunc(alternatives[:], func(name string) bool { return schema.Member(name) != nil })
	if !combined && !untyped(schema) {
		return definition
	}
	listAlternatives(schema, "tools[]."+member, drop)
	return withMember(definition, member, translate.ObjectSchema(schema))
}

func messagesOutput(body []byte, value rawjson.Span, drop func(string)) (wire.Cut, bool) {
	schema := rawjson.Value(value.Of(body)).Member("format").Member("schema")
	if !schema.IsObject() {
		return wire.Cut{}, false
	}
	out, refused := anthropic.AnswerSchema(schema, func(member string) { drop("output_config.format.schema." + member) })
	if !refused {
		return wire.Cut{}, false
	}
	config := rawjson.Value(value.Of(body))
	config = withMember(config, "format", withMember(config.Member("format"), "schema", out))
	return wire.Cut{Start: value.Start, End: value.End, With: config}, true
}

func geminiTool(definition rawjson.Value, _ func(string)) rawjson.Value {
	schema, refused := gemini.JSONSchema(definition.Member("parameters"))
	if !refused || definition.Member("parametersJsonSchema") != nil {
		return definition
	}
	return renamed(definition, "parameters", "parametersJsonSchema", schema)
}

// renamed returns an object with a member under another name and with another value.
func renamed(object rawjson.Value, from, to string, value rawjson.Value) rawjson.Value {
	for m := rawjson.Walk(object, 0); m.Next(); {
		key, start := string(m.Key), int32(m.From)
		span := m.Skip()
		if key != from || m.Bad {
			continue
		}
		with := append(append(rawjson.AppendQuoted(nil, to), ':'), value...)
		out, err := wire.Replace(object, []wire.Cut{{Start: start, End: span.End, With: with}})
		if err != nil {
			return object
		}
		return out
	}
	return object
}

func geminiOutput(body []byte, value rawjson.Span, _ func(string)) (wire.Cut, bool) {
	schema, refused := gemini.JSONSchema(value.Of(body))
	if !refused {
		return wire.Cut{}, false
	}
	// The name stands before the value.
	before := strings.TrimRight(rawjson.View(body[:value.Start]), ": \n\t\r")
	for _, name := range [...]string{`"responseSchema"`, `"response_schema"`} {
		if strings.HasSuffix(before, name) {
			return wire.Cut{
				Start: int32(len(before) - len(name)), End: value.End,
				With: append([]byte(`"responseJsonSchema":`), schema...),
			}, true
		}
	}
	return wire.Cut{}, false
}

// chatSchema is what a server of chat completions refuses in functions.
type chatSchema struct {
	// refuses reports whether the server refuses a schema at the top level.
	refuses func(schema rawjson.Value) bool
	// nested rewrites the rest of a schema. Nil: no change.
	nested func(schema rawjson.Value, drop func(string)) rawjson.Value
	// missing: parameters must exist. strict: null is no value for strict.
	missing, strict bool
}

// chatTool returns the repair of a tool of chat completions.
func chatTool(c chatSchema) func(rawjson.Value, func(string)) rawjson.Value {
	return func(definition rawjson.Value, drop func(string)) rawjson.Value {
		function := definition.Member("function")
		fixed := c.function(function, "tools[].function.", drop)
		if string(fixed) == string(function) {
			return definition
		}
		return withMember(definition, "function", fixed)
	}
}

// responsesTool is the repair of a tool of OpenAI's Responses API, or of all tools of a namespace.
func responsesTool(definition rawjson.Value, drop func(string)) rawjson.Value {
	switch definition.Member("type").Str() {
	case "function":
		return openAISchema.function(definition, "tools[].", drop)
	case "namespace":
		tools := definition.Member("tools")
		fixed := mapElements(tools, func(t rawjson.Value) rawjson.Value { return responsesTool(t, drop) })
		if string(fixed) != string(tools) {
			return withMember(definition, "tools", fixed)
		}
	}
	return definition
}

// function returns a function that the server takes, or the function itself.
func (c chatSchema) function(function rawjson.Value, path string, drop func(string)) rawjson.Value {
	const member = "parameters"
	if !function.IsObject() {
		return function
	}
	fixed := function
	if c.strict && string(function.Member("strict")) == "null" {
		if out, err := wire.Patch(fixed, wire.Member{Name: "strict"}); err == nil {
			fixed = out
		}
	}
	schema := function.Member(member)
	// A schema of another type is the client's mistake.
	if !schema.IsObject() && !(schema.Absent() && c.missing) {
		return fixed
	}
	out := schema
	if c.refuses(schema) {
		out = translate.ObjectSchema(schema)
		if string(out) != string(schema) {
			listAlternatives(schema, path+member, drop)
		}
	}
	if c.nested != nil {
		out = c.nested(out, func(name string) { drop(path + member + "." + name) })
	}
	if string(out) != string(schema) {
		fixed = withMember(fixed, member, out)
	}
	return fixed
}

// maxSchemaDepth bounds the depth of rewritten schemas.
const maxSchemaDepth = 64

// moonshotSchema rewrites a schema for Moonshot's dialect: a type beside anyOf moves into the
// alternatives, or an object takes the properties of all its alternatives; a list of items becomes
// prefixItems.
func moonshotSchema(v rawjson.Value, drop func(string)) rawjson.Value {
	return moonshotNode(v, v, drop, 0)
}

func moonshotNode(root, v rawjson.Value, drop func(string), depth int) rawjson.Value {
	if !v.IsObject() || depth == maxSchemaDepth {
		return v
	}
	kind, combined := v.Member("type").Used(), v.Member("anyOf").IsArray()
	if combined && kind.Str() == "object" {
		drop("anyOf")
		v, combined = translate.ObjectSchemaIn(root, v), false
	}
	var patches []wire.Member
	put := func(name string, before, after rawjson.Value) {
		if string(before) != string(after) {
			patches = append(patches, wire.Member{Name: name, Value: after})
		}
	}
	if combined && kind != nil {
		patches = append(patches, wire.Member{Name: "type"})
	}
	for name, m := range v.Members() {
		switch name {
		case "properties", "$defs", "definitions":
			put(name, m, mapMembers(m, func(s rawjson.Value) rawjson.Value { return moonshotNode(root, s, drop, depth+1) }))
		case "items":
			if m.IsArray() && v.Member("prefixItems") == nil {
				patches = append(patches, wire.Member{Name: "items"}, wire.Member{
					Name:  "prefixItems",
					Value: mapElements(m, func(s rawjson.Value) rawjson.Value { return moonshotNode(root, s, drop, depth+1) }),
				})
				continue
			}
			put(name, m, moonshotNode(root, m, drop, depth+1))
		case "additionalProperties", "not":
			put(name, m, moonshotNode(root, m, drop, depth+1))
		case "anyOf", "oneOf", "allOf", "prefixItems":
			put(name, m, mapElements(m, func(s rawjson.Value) rawjson.Value {
				if name == "anyOf" && kind != nil && s.IsObject() && s.Member("type") == nil && s.Member("$ref") == nil {
					s = withMember(s, "type", kind)
				}
				return moonshotNode(root, s, drop, depth+1)
			}))
		}
	}
	if patches == nil {
		return v
	}
	out, err := wire.Patch(v, patches...)
	if err != nil {
		return v
	}
	return out
}

// mapMembers returns an object with f applied to the value of each member, or the object itself if no
// value changes.
func mapMembers(object rawjson.Value, f func(rawjson.Value) rawjson.Value) rawjson.Value {
	out, changed := rawjson.Value{'{'}, false
	for name, m := range object.Members() {
		s := f(m)
		changed = changed || string(s) != string(m)
		out = append(rawjson.AppendKey(out, name), s...)
	}
	if !changed {
		return object
	}
	return append(out, '}')
}

// mapElements is mapMembers for the elements of an array.
func mapElements(array rawjson.Value, f func(rawjson.Value) rawjson.Value) rawjson.Value {
	var out []byte
	changed := false
	for _, m := range array.Elements() {
		s := f(m)
		changed = changed || string(s) != string(m)
		out = rawjson.AppendElement(out, s)
	}
	if !changed {
		return array
	}
	return rawjson.Array(out)
}

// takenTools remembers lists of tools that need no repair. A forgotten list is read again.
type takenTools [256]atomic.Uint64

func (t *takenTools) slot(list uint64) *atomic.Uint64 { return &t[list%uint64(len(t))] }

// listHash identifies a list of tools at an API. The hashes of blocks are uniform already.
func listHash(api string, tools []wire.Block) uint64 {
	const prime = 1099511628211
	h := uint64(len(tools))
	for i := range len(api) {
		h = (h ^ uint64(api[i])) * prime
	}
	for i := range tools {
		h = (h ^ binary.LittleEndian.Uint64(tools[i].Hash[:])) * prime
	}
	return h | 1 // 0 is an empty slot
}

// schemas is the layer that rewrites the schemas of native requests that the API would refuse.
type schemas struct {
	p      *Profile
	next   caddyhttp.Handler
	format wire.Format
	repair *schemaRepair
}

// Schemas returns next behind a layer that rewrites schemas for which the upstream would refuse a
// native request, or next itself if the client's request, as parsed in view, has none. The same schema
// is always rewritten to the same bytes. Without a view, the request is parsed when it is sent.
func (p *Profile) Schemas(next caddyhttp.Handler, client wire.Format, view *wire.View) caddyhttp.Handler {
	api := p.provider()
	repair := schemaRepairs[api][client]
	if repair == nil || p.Target(client) != client {
		return next
	}
	if view != nil {
		list := listHash(api, view.Blocks[:view.Tools])
		slot := p.taken.slot(list)
		known, taken := slot.Load() == list, true
		if !known || repair.hasOutput(view) {
			httpx.Guard(p.Log, "reading schemas", func() { taken = repair.accepts(view, known) })
		}
		if taken {
			slot.Store(list)
			return next
		}
	}
	return &schemas{p, next, client, repair}
}

// hasOutput reports whether a request may have a schema for the answer that the API refuses.
func (s *schemaRepair) hasOutput(v *wire.View) bool {
	value := v.Bytes(v.Reply.OutputConfig)
	return s.output != nil && len(value) > 0 && bytes.Contains(value, s.outputMark)
}

// accepts reports whether a request needs no rewrites, the tools not if they are known.
func (s *schemaRepair) accepts(v *wire.View, known bool) bool {
	if known {
		_, refused := s.output(v.Raw, v.Reply.OutputConfig, func(string) {})
		return !refused
	}
	cuts, _ := s.cuts(v)
	return len(cuts) == 0
}

// cuts returns the rewrites of a request, with the paths of the omitted members.
func (s *schemaRepair) cuts(v *wire.View) (cuts []wire.Cut, dropped []string) {
	drop := func(path string) {
		if !slices.Contains(dropped, path) {
			dropped = append(dropped, path)
		}
	}
	for i := range v.Blocks[:v.Tools] {
		span := v.Blocks[i].Span
		definition := rawjson.Value(v.Bytes(span))
		if !definition.IsObject() {
			continue
		}
		if out := s.tool(definition, drop); string(out) != string(definition) {
			cuts = append(cuts, wire.Cut{Start: span.Start, End: span.End, With: out})
		}
	}
	if s.hasOutput(v) {
		if cut, ok := s.output(v.Raw, v.Reply.OutputConfig, drop); ok {
			cuts = append(cuts, cut)
		}
	}
	return cuts, dropped
}

// ServeHTTP implements caddyhttp.Handler. A request that cannot be parsed is forwarded unmodified, as
// is one that the client has signed.
func (d *schemas) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	body, err := httpx.Outgoing(r, d.p.MaxBody)
	if err != nil || d.p.Sealed(r) != nil {
		return d.next.ServeHTTP(w, r) //nolint:nilerr // what is not understood passes untouched
	}
	out := body
	var dropped []string
	httpx.Guard(d.p.Log, "rewriting schemas", func() { out, dropped = d.rewrite(body, httpx.View(r, d.format)) })
	if httpx.Same(out, body) {
		return d.next.ServeHTTP(w, r)
	}
	if len(dropped) > 0 && d.p.Headers {
		w.Header()[headerDropped] = []string{strings.Join(dropped, ", ")}
	}
	defer httpx.SwapBody(r, body, out)()
	return d.next.ServeHTTP(w, r)
}

func (d *schemas) rewrite(body []byte, view *wire.View) (out []byte, dropped []string) {
	if view == nil {
		var err error
		if view, err = wire.Parse(d.format, body, nil); err != nil {
			return body, nil
		}
	}
	cuts, dropped := d.repair.cuts(view)
	if len(cuts) == 0 {
		return body, nil
	}
	slices.SortFunc(cuts, func(a, b wire.Cut) int { return int(a.Start - b.Start) })
	out, err := wire.Replace(body, cuts)
	if err != nil {
		return body, nil
	}
	return out, dropped
}
