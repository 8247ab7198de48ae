// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"cmp"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Failure is an error of an API: the response to a request, or the end of a stream. Clients depend
// on its status, type and, in some cases, wording, so each failure is written in the words of the
// client's own API.
type Failure struct {
	// Status is the HTTP status, 0 in a stream.
	Status int
	// Type and Code are the upstream's error type and code.
	Type, Code string
	// Message is the upstream's text.
	Message string
	// Modelless: the missing resource is not the model.
	Modelless bool
	// RetryAfter is the delay in seconds, 0 if the body has none.
	RetryAfter int

	// Resets is the number of seconds until a spent budget resets, 0 for other failures.
	Resets int

	fault Fault
	// Sizes for a prompt that is too long, 0 if unknown: the prompt, the requested answer and the
	// context window, in tokens.
	tokens, answer, limit int64
	// lowerBound: tokens is a lower bound of the prompt's length.
	lowerBound bool
}

// Fault is the category of an error, common to all APIs.
type Fault uint8

// The fault categories.
const (
	FaultUnknown Fault = iota
	FaultInvalid
	FaultAuthentication
	FaultBilling
	FaultPermission
	FaultNotFound
	FaultConflict
	FaultTooLarge
	FaultRate
	FaultServer
	FaultOverloaded
	FaultTimeout
	FaultContext // the prompt does not fit the context window
)

// StatusOverloaded is Anthropic's own status for an overload. Claude Code gives up after three of
// them and is more patient with a 503, so only real overloads get this status.
const StatusOverloaded = 529

// Refusal returns the failure for a request that cannot be converted, or for a body that is not a
// request.
func Refusal(err error) *Failure {
	f := &Failure{Status: http.StatusBadRequest, Type: "invalid_request_error", Message: err.Error(), fault: FaultInvalid}
	if u, ok := errors.AsType[*Unsupported](err); ok {
		f.Code = "unsupported_value"
		f.Message = "the upstream speaks another format that cannot carry this request: " + u.Error()
	}
	return f
}

// Spent returns the failure for a spent user budget that resets in the given seconds. Clients must
// not retry before.
func Spent(message string, resets int) *Failure {
	return &Failure{Status: http.StatusTooManyRequests, Message: message, Resets: max(1, resets), fault: FaultBilling}
}

// complete determines the fault and fills an empty message.
func (f *Failure) complete() {
	if f.Message == "" {
		f.Message = http.StatusText(f.Status)
	}
	if f.Message == "" {
		f.Message = "the upstream reported an error without a text"
	}
	if f.fault != FaultUnknown {
		return
	}
	if f.tooLong() {
		f.fault = FaultContext
		return
	}
	words := strings.ToLower(f.Type + " " + f.Code)
	for _, w := range faultWords {
		if strings.Contains(words, w.word) {
			f.fault = w.fault
			break
		}
	}
	// These faults are vague: the status says more.
	if by, ok := faultOfStatus[f.Status]; ok &&
		(f.fault == FaultUnknown || f.fault == FaultInvalid || f.fault == FaultServer) {
		f.fault = by
	}
	if f.fault == FaultServer && strings.Contains(strings.ToLower(f.Message), "overloaded") {
		f.fault = FaultOverloaded
	}
	if f.fault == FaultUnknown {
		f.fault = FaultServer
		if f.Status >= 400 && f.Status < 500 {
			f.fault = FaultInvalid
		}
	}
}

// faultWords are substrings of error types, codes and states. The first match counts.
var faultWords = []struct {
	word  string
	fault Fault
}{
	{"overloaded", FaultOverloaded},
	{"unavailable", FaultOverloaded},
	{"insufficient_quota", FaultBilling},
	{"billing", FaultBilling},
	{"rate_limit", FaultRate},
	{"resource_exhausted", FaultRate},
	{"too_many_requests", FaultRate},
	{"authentication", FaultAuthentication},
	{"unauthenticated", FaultAuthentication},
	{"invalid_api_key", FaultAuthentication},
	{"permission", FaultPermission},
	{"too_large", FaultTooLarge},
	{"not_found", FaultNotFound},
	{"notfound", FaultNotFound},
	{"conflict", FaultConflict},
	{"aborted", FaultConflict},
	{"timeout", FaultTimeout},
	{"deadline_exceeded", FaultTimeout},
	{"invalid", FaultInvalid},
	{"failed_precondition", FaultInvalid},
	{"out_of_range", FaultInvalid},
	{"badrequest", FaultInvalid},
}

var faultOfStatus = map[int]Fault{
	http.StatusUnauthorized:          FaultAuthentication,
	http.StatusPaymentRequired:       FaultBilling,
	http.StatusForbidden:             FaultPermission,
	http.StatusNotFound:              FaultNotFound,
	http.StatusConflict:              FaultConflict,
	http.StatusRequestEntityTooLarge: FaultTooLarge,
	http.StatusTooManyRequests:       FaultRate,
	http.StatusInternalServerError:   FaultServer,
	http.StatusBadGateway:            FaultServer,
	http.StatusServiceUnavailable:    FaultServer,
	http.StatusGatewayTimeout:        FaultTimeout,
	StatusOverloaded:                 FaultOverloaded,
}

// tooLongTexts match servers' error messages for a prompt that exceeds the window, alone or with
// the requested answer. Groups: prompt (n), answer (a) and window (m) in tokens, with or without commas. The
// first match counts.
var tooLongTexts = textsWithNumbers(
	// Anthropic, OpenAI, Gemini.
	`exceed context limit: <n> \+ <a> > <m>`,
	`is too large: <a>\. This model's maximum context length is <m> tokens and your request has <n> input tokens`,
	// vLLM.
	`maximum context length is <m> tokens.*?requested <a> output tokens and your prompt contains (?P<least>at least )?`+
		`<n> input tokens`,
	`maximum context length is <m> tokens.*?\(<n> in (?:the|your) (?:messages|prompt)[,;] (?:and )?<a> (?:in|for) the `+
		`completion`,
	`passed <n> input tokens and requested <a> output tokens.*?context length is only <m>`,
	// OpenRouter.
	`maximum context length is <m> tokens.*?\(<n> of text input, .*?<a> in the output`,
	// SGLang.
	`maximum context length of <m> tokens.*?: <n> tokens from the input messages and <a> tokens for the completion`,
	`input \(<n> tokens\) is longer than the model's context length \(<m> tokens\)`,
	`input length \(?<n>(?: tokens)?\)? exceeds (?:the )?(?:model's )?maximum (?:context|allowed input) length(?: of)? \(?<m>`,
	// LM Studio.
	`\(n_keep: <n> ?>= n_ctx: <m>\)`,
	`(?:first <n> tokens when context.*?)?context length of only <m> tokens`,
	// Text Generation Inference.
	"`inputs` tokens \\+ `max_new_tokens` must be <= <m>\\. Given: <n> `inputs` tokens and <a> `max_new_tokens`",
	"`inputs` must have less than <m> tokens\\. Given: <n>",
	// oMLX, Anthropic, Fireworks.
	`prompt too long: <n> tokens exceeds max(?:imum)?(?: context window)? of <m>`,
	`prompt is too long(?:: <n>(?: tokens > |, model maximum context length: )<m>)?`,
	// OpenAI, and servers with its words.
	`maximum context length is <m> tokens(?:.*?(?:resulted in|requested|contains?|has)(?: at least)?(?: about)? <n>)?`,
	`input token count(?: \(<n>\))? exceeds the maximum number of tokens(?: allowed)?(?: \(?<m>)?`,
	`exceeds (?:the )?(?:model's )?maximum context length of <m>`, // LiteLLM
	`exceeds the context window`,
	// llama.cpp, DS4, Ollama.
	`(?:request|prompt length)(?: \(?<n>(?: tokens)?\)?)? exceeds the available context size(?:(?: of)? \(?<m> tokens\)?)?`,
	`prompt has <n> tokens, but the configured context size is <m>`,
	`prompt too long; exceeded (?:max )?context length`,
	`(?:input|prompt)(?: length)? exceeds (?:the )?(?:maximum )?context (?:length|size|window)`,
	// TensorRT-LLM, TabbyAPI.
	`sum of prompt length \(<n>.*? should not exceed max_num_tokens \(<m>`,
	`prompt length \(?<n>\)? (?:exceeds|is greater than) (?:maximum input length|max_seq_len) \(?<m>`,
	// Mistral, xAI, Moonshot, Cohere, GitHub Copilot.
	`prompt contains <n> tokens.*?too large for model with <m> maximum context length`,
	`maximum prompt length is <m> but the request contains <n>`,
	`exceeded model token limit(?:: <m>(?: \(requested: <n>\))?)?`,
	`tokens in the prompt cannot exceed <m> - received <n>`,
	`prompt token count of <n> exceeds the limit of <m>`,
	// Bedrock, MiniMax, Z.ai, Alibaba, Groq and Cerebras.
	`input is too long for requested model`,
	`context window exceeds limit`,
	`prompt exceeds max length`,
	`range of input length should be \[\d+, ?<m>\]`,
	`reduce the length of the (?:input )?(?:messages|prompt)(?:.*?current length is <n> while limit is <m>)?`,
)

// longAnswerTexts match servers' error messages for a bound of the answer above the model's own (m): Anthropic, OpenAI,
// DeepSeek, Alibaba, Groq, Bedrock.
var longAnswerTexts = textsWithNumbers(
	`max_tokens: \d+ > <m>, which is the maximum allowed number of output tokens`,
	`supports at most <m> completion tokens`,
	`range of max_tokens (?:is|should be) \[\d+, ?<m>\]`,
	"`max_(?:completion_)?tokens` must be less than or equal to `?<m>",
	`maximum tokens you requested exceeds the model limit of <m>`,
)

// textsWithNumbers compiles expressions in which <n> stands for a number of the group n.
func textsWithNumbers(texts ...string) []*regexp.Regexp {
	number, all := regexp.MustCompile(`<([nam])>`), make([]*regexp.Regexp, 0, len(texts))
	for _, t := range texts {
		all = append(all, regexp.MustCompile(`(?i)`+number.ReplaceAllString(t, `(?P<$1>\d[\d,]*)`)))
	}
	return all
}

// tooLongCodes are the codes and types of such errors: OpenAI, llama.cpp, GitHub Copilot, Z.ai.
var tooLongCodes = []string{
	"context_length_exceeded", "exceed_context_size_error", "model_max_prompt_tokens_exceeded",
	"model_context_window_exceeded", "1261",
}

// outOfContext matches the error of llama.cpp and ik_llama.cpp, with status 500, for a window
// filled by the prompt or during the answer.
var outOfContext = regexp.MustCompile(`^(?i:context size has been exceeded|context shift is disabled)`)

// tooLong reports whether the prompt was too long, and extracts the numbers from the message.
func (f *Failure) tooLong() bool {
	if outOfContext.MatchString(f.Message) {
		return true
	}
	if f.Status > http.StatusInternalServerError || f.Status == http.StatusUnauthorized ||
		f.Status == http.StatusTooManyRequests {
		return false
	}
	groups := f.match(tooLongTexts)
	f.lowerBound = groups["least"] != ""
	// Some servers tell the numbers beside the message, too.
	f.tokens, f.limit, f.answer = cmp.Or(number(groups["n"]), f.tokens), cmp.Or(number(groups["m"]), f.limit),
		cmp.Or(number(groups["a"]), f.answer)
	return groups != nil || slices.Contains(tooLongCodes, f.Code) || slices.Contains(tooLongCodes, f.Type)
}

// match returns the groups of the first text that the message matches, nil for none.
func (f *Failure) match(texts []*regexp.Regexp) map[string]string {
	// Limit the cost of the regular expressions.
	message := f.Message[:min(len(f.Message), 4<<10)]
	for _, re := range texts {
		if m := re.FindStringSubmatch(message); m != nil {
			groups := make(map[string]string, len(m))
			for i, name := range re.SubexpNames() {
				groups[name] = m[i]
			}
			return groups
		}
	}
	return nil
}

// MaxAnswer returns the model's bound of an answer in tokens, 0 unless the request was refused for a higher one.
func (f *Failure) MaxAnswer() int64 { return number(f.match(longAnswerTexts)["m"]) }

// number returns the value of a number with or without commas, 0 for none and for one out of range.
func number(digits string) int64 {
	n, err := strconv.ParseInt(strings.ReplaceAll(digits, ",", ""), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Words are an API's words for a fault: the HTTP status, the type or state, and the code.
type Words struct {
	// Status is the HTTP status.
	Status int
	// Type is the name of the type or state, Code the code, empty if the API has none.
	Type, Code string
}

// Room returns the tokens left beside the prompt, and whether the requested answer exceeded them.
// tokens is 0 if unknown.
func (f *Failure) Room() (tokens int64, exceeded bool) {
	if f.fault != FaultContext || f.answer == 0 || f.tokens == 0 || f.tokens >= f.limit {
		return 0, false
	}
	// vLLM stops counting a prompt at the first token beyond the window.
	if f.lowerBound {
		return 0, true
	}
	return f.limit - f.tokens, true
}

// Window returns the model's context window in tokens, 0 if the failure does not include it.
func (f *Failure) Window() int64 { return f.limit }

// In returns the failure in the words of the client's API. The upstream's status is kept if it fits
// the fault.
func (f *Failure) In(to wire.Format) Words {
	f.complete()
	w := dialectOf(to).rules.Faults[f.fault]
	switch f.fault {
	case FaultBilling:
		if f.Resets > 0 { // a cap is 429 in every API; Anthropic's 402 is an account without credit
			w.Status, w.Type = f.Status, cmp.Or(f.Type, w.Type)
		}
	case FaultOverloaded, FaultContext, FaultRate:
	default:
		if f.Status >= 400 && f.Status <= 599 && f.Status != StatusOverloaded {
			w.Status = f.Status
		}
	}
	return w
}

// Text returns the message, for too long prompts in the wording of the client's API.
func (f *Failure) Text(to wire.Format) string {
	// Clients recognise the wording and compact the conversation.
	if f.fault != FaultContext {
		return f.Message
	}
	return dialectOf(to).TooLong(f.Message, f.tokens, f.answer, f.limit)
}

// Write returns the failure as a response of the client's API.
func (f *Failure) Write(to wire.Format) (status int, body []byte) {
	w := f.In(to)
	return w.Status, f.Append(nil, to)
}

// Append appends the failure's body, on one line.
func (f *Failure) Append(b []byte, to wire.Format) []byte {
	return dialectOf(to).AppendFailure(b, f, f.In(to), f.Text(to))
}
