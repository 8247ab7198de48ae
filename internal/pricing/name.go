// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// name is a model name taken apart.
type name struct {
	vendor string // "anthropic", "bedrock", "vertex", "openai", "gemini"; empty where the name does not tell
	model  string // as the table writes it
	region bool   // at Bedrock, and not by its global profile
	long   bool   // asked for the context window of a million tokens
	family string // the words of the model without its version: claude-opus, gpt-sol, deepseek-pro
	major  int    // -1 where the name has no version
	minor  int
}

// short returns the model without the vendors and accounts before it.
func (n name) short() string { return n.model[strings.LastIndexByte(n.model, '/')+1:] }

func (n name) before(o name) bool {
	return n.major < o.major || n.major == o.major && n.minor < o.minor
}

// maxNames bounds the names that are remembered.
const maxNames = 512

var (
	names     sync.Map // of name, by how clients write it
	nameCount atomic.Int32
)

// nameOf returns parseName's result, from memory for names seen before.
func nameOf(s string) name {
	if n, ok := names.Load(s); ok {
		return n.(name)
	}
	n := parseName(s)
	// Clients choose the names, so neither their length nor their number may grow the memory.
	if len(s) <= 128 && nameCount.Load() < maxNames {
		nameCount.Add(1)
		// s may be part of a whole request body.
		names.Store(strings.Clone(s), n)
	}
	return n
}

// parseName takes a model name apart: vendor prefixes (anthropic/…, us.anthropic.…-v1:0,
// publishers/…/models/…@date), date suffixes, [1m].
func parseName(s string) name {
	n := name{major: -1}
	s = strings.ToLower(strings.TrimSpace(s))
	if rest, ok := strings.CutSuffix(s, "[1m]"); ok {
		s, n.long = rest, true
	}
	path := s
	s = s[strings.LastIndexByte(s, '/')+1:]
	if i := strings.Index(s, "anthropic."); i >= 0 {
		n.vendor, n.region, s = "bedrock", s[:i] != "global.", s[i+len("anthropic."):]
	}
	if i := strings.IndexByte(s, '@'); i > 0 {
		s = s[:i]
		if strings.HasPrefix(s, "claude-") {
			n.vendor = "vertex"
		}
	}
	// Bedrock's revision, or the tag of a local server.
	if i := strings.IndexByte(s, ':'); i > 0 {
		s = s[:i]
	}
	s = strings.TrimSuffix(s, "-latest")
	if n.vendor == "bedrock" {
		s = trimRevision(s)
	}
	s = trimDate(s)
	switch {
	case strings.HasPrefix(s, "claude-"):
		n.claude(s)
		if n.vendor == "" {
			n.vendor = "anthropic"
		}
	case strings.HasPrefix(s, "gpt-oss"): // open weights, served by many vendors
		n.model = s
	case strings.HasPrefix(s, "gpt-"):
		n.vendor, n.model = "openai", s
	case len(s) > 1 && s[0] == 'o' && '1' <= s[1] && s[1] <= '9' && (len(s) == 2 || s[2] == '-'):
		n.vendor, n.model = "openai", s
	case strings.HasPrefix(s, "codex-") || strings.HasPrefix(s, "chatgpt-"):
		n.vendor, n.model = "openai", s
	case strings.HasPrefix(s, "gemini-"):
		s, _, _ = strings.Cut(s, "-preview") // a date or a variant follows
		n.vendor, n.model = "gemini", trimStable(s)
	default:
		// Hosts list a model under its vendor's path, so the path is part of the name.
		n.model = pointed.ReplaceAllString(path, "$1.$2")
	}
	n.words()
	return n
}

// pointed matches a version as Fireworks writes it: kimi-k2p6 for kimi-k2.6.
var pointed = regexp.MustCompile(`(\d)p(\d)`)

// words reads the family and the version.
func (n *name) words() {
	var words []string
	for word := range strings.SplitSeq(n.short(), "-") {
		from := strings.IndexFunc(word, isDigit)
		if from < 0 {
			words = append(words, word)
			continue
		}
		to := from + 1
		for to < len(word) && (isDigit(rune(word[to])) || word[to] == '.') {
			to++
		}
		// The version is the first number, alone or within a word: 5.6 in gpt-5.6-sol, 4 in deepseek-v4-pro, 3 in
		// kimi-k3.
		if n.major < 0 {
			numbers := strings.Split(word[from:to]+".0", ".")
			n.major, _ = strconv.Atoi(numbers[0])
			n.minor, _ = strconv.Atoi(numbers[1])
		}
		// The v of v4 belongs to the version, the k of k3 to the family.
		if rest := word[:from] + word[to:]; rest != "" && rest != "v" {
			words = append(words, rest)
		}
	}
	n.family = strings.Join(words, "-")
}

func isDigit(r rune) bool { return '0' <= r && r <= '9' }

func (n *name) claude(s string) {
	var version []int
	// Both orders occur, claude-opus-4-5 and claude-3-5-sonnet, and a dot in place of the dash.
	family := ""
	for part := range strings.SplitSeq(strings.ReplaceAll(s[len("claude-"):], ".", "-"), "-") {
		v, err := strconv.Atoi(part)
		switch {
		// Longer numbers are dates.
		case err == nil && len(part) <= 2 && len(version) < 2:
			version = append(version, v)
		case err != nil && family == "":
			family = part
		}
	}
	n.model = "claude-" + family
	if len(version) > 0 {
		n.major = version[0]
		n.model += "-" + strconv.Itoa(n.major)
	}
	if len(version) > 1 && version[1] > 0 {
		n.minor = version[1]
		n.model += "-" + strconv.Itoa(n.minor)
	}
}

// trimDate removes -20250929 or -2026-03-05.
func trimDate(s string) string {
	if i := len(s) - len("-20060102"); i > 0 && s[i] == '-' && digits(s[i+1:]) {
		return s[:i]
	}
	if i := len(s) - len("-2006-01-02"); i > 0 && s[i] == '-' && s[i+5] == '-' && s[i+8] == '-' &&
		digits(s[i+1:i+5]) && digits(s[i+6:i+8]) && digits(s[i+9:]) {
		return s[:i]
	}
	return s
}

// trimStable removes Gemini's -001.
func trimStable(s string) string {
	if i := len(s) - len("-001"); i > 0 && s[i] == '-' && digits(s[i+1:]) {
		return s[:i]
	}
	return s
}

// trimRevision removes Bedrock's -v1.
func trimRevision(s string) string {
	if i := strings.LastIndex(s, "-v"); i > 0 && digits(s[i+2:]) {
		return s[:i]
	}
	return s
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
