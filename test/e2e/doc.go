// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests a built Caddy from outside, with users' clients: Claude Code, Codex, opencode,
// Gemini CLI, Qwen Code, pi, Cline, Kilo, the SDKs for Go and JavaScript, and with a load during
// reloads of the configuration.
//
// The model is the llm_cache_simulator of the same Caddy, scripted with tool calls, or a real
// engine with a tiny model (internal/engine). The traffic is checked by the APIs' own rules
// (internal/contract). On Linux the whole test process moves into a network namespace with only the
// loopback interface, so that no client can reach anything else.
//
// The package is a separate Go module, so that the SDKs do not become dependencies of the plugin
// and `go test ./...` in the root needs only Go. Run it with
//
//	cd test && LLM_CACHE_E2E=1 go test ./e2e
//
// It takes a ready binary from LLM_CACHE_CADDY, and the paths of the clients from LLM_CACHE_CLAUDE,
// LLM_CACHE_CODEX, LLM_CACHE_OPENCODE, LLM_CACHE_GEMINI, LLM_CACHE_QWEN, LLM_CACHE_PI,
// LLM_CACHE_CLINE and LLM_CACHE_KILO. Node.js comes from LLM_CACHE_NODE, and the packages of the
// SDKs and of the engine from LLM_CACHE_SDKS and LLM_CACHE_ENGINE. With LLM_CACHE_NIGHTLY every
// client meets a model of every API. Tests with missing dependencies are skipped; with CI=true they
// fail.
package e2e
