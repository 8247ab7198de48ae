// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/bedrock"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/vertex"
)

// Options are a site's options for its upstream.
type Options struct {
	// Translate enables the translation of requests in a format that the upstream does not speak.
	// Nil: enabled.
	Translate *bool
	// BufferCalls sends each tool call of a stream in one piece, JoinCalls all calls together.
	BufferCalls, JoinCalls bool
	// MaxBody is the maximum size of a body, in bytes.
	MaxBody int64
	// Headers adds a header with the fields that the translation dropped from the request.
	Headers bool
	// Salt returns a secret that is equal for all tenants which share prefixes with a request's
	// tenant, and different for all others.
	Salt func(r *http.Request) string
	// Translations remembers translated conversations. Nil: nothing is remembered.
	Translations *Translations
	// Log gets errors.
	Log *zap.Logger
	// Prices is the table of model prices. Default: the built-in table.
	Prices *pricing.Table
}

// Profile is an upstream with a site's options. The layers next to the upstream are built from it.
type Profile struct {
	*Upstream // nil: any upstream
	Options

	// Formats are the upstream's formats. Other formats are translated to the first one. None: any.
	Formats []wire.Format

	compat           *compat // nil if no change is needed
	translatedCompat *compat // of translated requests, see [compat.translated]
	blind            blindModels
	taken            takenTools
	reached          atomic.Pointer[reachedHost]
}

// Profile combines the upstream with a site's options.
func (u *Upstream) Profile(o Options) *Profile {
	d := u.compat()
	return &Profile{Upstream: u, Options: o, Formats: u.formats(), compat: d, translatedCompat: d.translated()}
}

// Target returns the format in which a client's request is sent upstream.
func (p *Profile) Target(client wire.Format) wire.Format {
	// Variants of a format (Claude at resellers) have no translation of their own.
	if p.speaks(client) || p.Options.Translate != nil && !*p.Options.Translate || client.Traits().Variant ||
		p.Formats[0].Traits().Variant {
		return client
	}
	return p.Formats[0]
}

// Understands reports whether requests in a format can be forwarded, unmodified or translated.
func (p *Profile) Understands(client wire.Format) bool { return p.speaks(p.Target(client)) }

// CanRetain reports whether the upstream may retain conversations in a format: a provider does in its
// own format, a local server does not, and an unspecified upstream decides itself.
func (p *Profile) CanRetain(client wire.Format) bool {
	return p.Target(client) == client && !p.Local()
}

// Marks reports whether the translation of a request asks the provider to cache the prompt up to
// its end.
func (p *Profile) Marks(v *wire.View) bool {
	to := p.Target(v.Format)
	if to == v.Format || !p.Official() && !p.marked() || !to.Traits().Markers {
		return false
	}
	talks := v.OffersTools()
	// A client with markers of its own has chosen the place.
	for i := range v.Blocks {
		if !v.Blocks[i].Marker.Empty() {
			return false
		}
	}
	// The translation marks conversations only.
	for i := range v.Messages {
		talks = talks || v.Messages[i].Role == wire.RoleAssistant
	}
	return talks
}

// Manages reports whether the client's options for long histories reach the upstream unmodified, or
// the upstream builds its prompts itself.
func (p *Profile) Manages(client wire.Format) bool {
	return p.Stateful() || p.Target(client) == client &&
		(p.compat == nil || !slices.Contains(p.compat.drop, "context_management"))
}

// Verbatim reports whether unedited requests in a format are forwarded unmodified.
func (p *Profile) Verbatim(client wire.Format) bool {
	return p.Target(client) == client && !p.Renames() && p.compat == nil
}

// Forms counts the copies that the layers make of a body in a format.
func (p *Profile) Forms(client wire.Format) (n int64) {
	if p.Target(client) != client {
		n += 2 // the upstream's body, and the pieces to build it from
	}
	if p.compat != nil {
		n++
	}
	return n
}

// KeepsMarkers reports whether cache_control reaches the upstream.
func (p *Profile) KeepsMarkers() bool { return p.compat == nil || p.compat.cacheControl }

// marked reports whether the upstream is a billed API with cache markers.
func (u *Upstream) marked() bool { return u.preset().hosted && u.keepsMarkers() }

// TakesMarkers reports whether requests in a client's format may get cache markers.
func (p *Profile) TakesMarkers(client wire.Format) bool {
	return client.Traits().Markers || p.marked() && client.Traits().ServersVary && p.Target(client) == client
}

// TellsTimings reports whether the server reports timings, as llama.cpp does, without a request for
// usage.
func (p *Profile) TellsTimings() bool { return p.Upstream != nil && p.Preset == "llama_cpp" }

// Slotted reports whether requests name their slot.
func (p *Profile) Slotted() bool { return p.compat.slotted() }

func (p *Profile) buffers() bool { return p.BufferCalls || p.JoinCalls }

// ModelName maps a client's model name to the upstream's.
type ModelName struct {
	// From is the client's name. Each * in it stands for any characters.
	From string `json:"from"`
	// To is the upstream's name. A * in it stands for the characters that the * of From matches, so
	// that local/* and * remove a prefix.
	To string `json:"to"`
}

// formats returns the formats that the upstream speaks, none for any.
func (u *Upstream) formats() []wire.Format {
	if u == nil {
		return nil
	}
	if u.Format != "" {
		return []wire.Format{u.Format}
	}
	return u.preset().formats
}

func (u *Upstream) speaks(f wire.Format) bool {
	known := u.formats()
	return known == nil || slices.Contains(known, f)
}

// Official reports whether the upstream is a provider's own API.
func (u *Upstream) Official() bool {
	return u.preset().official
}

// Local reports whether the upstream is a local server.
func (u *Upstream) Local() bool {
	return u != nil && u.Preset != "" && !u.Official() && !u.preset().hosted
}

// Name is the name of the preset, "" for none.
func (u *Upstream) Name() string {
	if u == nil {
		return ""
	}
	return u.Preset
}

// Renames reports whether any model has another name at the upstream.
func (u *Upstream) Renames() bool { return len(u.models()) > 0 }

func (u *Upstream) models() []ModelName {
	if u != nil && len(u.Models) > 0 {
		return u.Models
	}
	return u.preset().models
}

// Model returns the upstream's name of a model.
func (u *Upstream) Model(name string) string {
	for _, m := range u.models() {
		if Matches(m.From, name) {
			return m.rename(name)
		}
	}
	return name
}

// rename returns the upstream's name of a model that matches From.
func (m *ModelName) rename(name string) string {
	before, after, open := strings.Cut(m.To, "*")
	if !open {
		return m.To
	}
	head, tail, _ := strings.Cut(m.From, "*")
	return before + name[len(head):len(name)-len(tail)] + after
}

// Matches reports whether a name matches a pattern, in which each * stands for any characters.
func Matches(pattern, name string) bool {
	head, rest, open := strings.Cut(pattern, "*")
	if !open {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, head)
	if !ok {
		return false
	}
	for {
		part, more, open := strings.Cut(rest, "*")
		if !open {
			return strings.HasSuffix(name, part)
		}
		// The leftmost match leaves the most room for the rest of the pattern.
		at := strings.Index(name, part)
		if at < 0 {
			return false
		}
		name, rest = name[at+len(part):], more
	}
}

// Placeholders in which reverse_proxy reports the upstream's address.
const (
	Host     = "http.reverse_proxy.upstream.host"
	Port     = "http.reverse_proxy.upstream.port"
	HostPort = "http.reverse_proxy.upstream.hostport"
)

// Reached returns the value of one of these placeholders, "" if reverse_proxy has not set it.
func Reached(ctx context.Context, what string) string {
	repl, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	s, _ := repl.GetString(what)
	return s
}

// providers maps presets to the provider names of the OpenTelemetry conventions for generative AI
// (gen_ai.provider.name, 1.41).
var providers = map[string]string{
	"anthropic": "anthropic", "openai": "openai", "gemini": "gcp.gemini", "vertex": "gcp.vertex_ai",
	"bedrock": "aws.bedrock", "azure": "azure.ai.openai", "mistral": "mistral_ai", "xai": "x_ai",
}

// spoken maps a format to the provider that owns it, for upstreams without a preset.
var spoken = map[wire.Format]string{
	wire.Anthropic: "anthropic", wire.OpenAIChat: "openai", wire.OpenAIResponses: "openai",
	wire.Gemini: "gcp.gemini", wire.Interactions: "gcp.gemini", vertex.Format: "gcp.vertex_ai",
	bedrock.Format: "aws.bedrock",
}

// operations maps formats to operation names other than chat.
var operations = map[wire.Format]string{wire.Gemini: "generate_content", wire.Interactions: "generate_content"}

// Provider returns the provider's name for requests in a client's format, as traces use it: the
// conventions' name, or else the preset.
func (p *Profile) Provider(client wire.Format) string {
	preset := p.Name()
	switch name, ok := providers[preset]; {
	case ok:
		return name
	case preset != "":
		return preset
	}
	return spoken[p.Target(client)]
}

// Operation returns the name of the operation of requests in a client's format, as traces use it
// (gen_ai.operation.name).
func (p *Profile) Operation(client wire.Format) string {
	return cmp.Or(operations[p.Target(client)], "chat")
}

// toolBounds are the limits of the providers' APIs by format.
var toolBounds = map[wire.Format]wire.ToolBounds{
	// Names: ^[a-zA-Z0-9_-]{1,128}$. Requests: 32 MB (API overview, "Request size limits");
	// 30 MB at Vertex AI and 25,000,000 bytes at Bedrock (InvokeModel).
	wire.Anthropic: {Name: 128, Bytes: 32 << 20},
	vertex.Format:  {Name: 128, Bytes: 30 << 20},
	bedrock.Format: {Name: 64, Bytes: 25_000_000},
	// "Invalid 'tools': array too long. Expected an array with maximum length 128"; the
	// same words bound descriptions at 1024. Azure, Groq, DeepSeek and Kimi have the same
	// count, xAI has 200.
	wire.OpenAIChat:      {Count: 128, Name: 64, Description: 1024},
	wire.OpenAIResponses: {Count: 128, Name: 64, Description: 1024},
	// "tools[0].function_declarations: [FIELD_INVALID] At most 512 function declarations
	// can be specified." Requests: 20 MB (Gemini API, "Files").
	wire.Gemini:       {Count: 512, Name: 64, Bytes: 20 << 20},
	wire.Interactions: {Count: 512, Name: 64, Bytes: 20 << 20},
}

// ToolBounds returns the upstream's limits for the tools of a request in a client's format. A local
// server has no limit but its model's context window.
func (p *Profile) ToolBounds(client wire.Format) (b wire.ToolBounds) {
	if !p.Local() {
		b = toolBounds[p.Target(client)]
	}
	if p.Upstream != nil && p.MaxToolName != nil {
		b.Name = *p.MaxToolName
	}
	return b
}

// Stateful reports whether the upstream stores conversations and builds the prompts itself.
func (u *Upstream) Stateful() bool { return u.preset().stateful }

// Reports reports whether the upstream reports cached tokens.
func (u *Upstream) Reports() bool {
	if u == nil || u.ReportsCache == nil {
		return u.preset().reports
	}
	return *u.ReportsCache
}

// reachedHost is the last request's host and the preset of its API.
type reachedHost struct{ hostport, preset string }

// At records the host and port that a request went to. Without a stated preset, the host tells
// which provider's rules and prices apply to the next requests.
func (p *Profile) At(hostport string) {
	if hostport == "" || p.Name() != "" {
		return
	}
	if before := p.reached.Load(); before == nil || before.hostport != hostport {
		hostport = strings.Clone(hostport) // may be a part of the request
		p.reached.Store(&reachedHost{hostport, PresetAt(hostport)})
	}
}

// PresetAt returns the preset of the API at a host and port, "" if unknown.
func PresetAt(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	host = strings.ToLower(host)
	for _, name := range presetNames {
		for _, pattern := range presets[name].hosts {
			if Matches(pattern, host) {
				return name
			}
		}
	}
	return ""
}

// provider returns the provider of the rules and prices. "" leaves it to the names of models.
func (p *Profile) provider() string {
	if name := p.Name(); name != "" {
		return name
	}
	if at := p.reached.Load(); at != nil {
		return at.preset
	}
	return ""
}

// Takes reports whether requests in a format can be sent to a host and port, as they are or translated. A host without
// a preset may take any.
func (u *Upstream) Takes(client wire.Format, translate *bool, hostport string) bool {
	if u == nil || len(u.formats()) == 0 {
		at := PresetAt(hostport)
		return at == "" || (&Upstream{Preset: at}).Profile(Options{Translate: new(bool)}).Understands(client)
	}
	return u.Profile(Options{Translate: translate}).Understands(client)
}
