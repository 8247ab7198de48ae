// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

// clientBodies are requests in the shapes of real clients, invented and shortened: Claude Code,
// opencode, Codex (both of its forms), the Gemini CLI. The number is the index of the format in
// Formats().
var clientBodies = []struct {
	format byte
	body   string
}{
	{
		0,
		`{"model":"claude-opus-5-5","messages":[{"role":"user","content":[{"type":"text",` +
			`"text":"<system-reminder>\nNotes\n</system-reminder>"},{"type":"text","text":"Fix it"}]},{"role":"system",` +
			`"content":"# Environment","output_config":{"effort":"high"}},{"role":"assistant","content":[{"type":"thinking",` +
			`"thinking":"","signature":"EqQBCkYIBxgCKkA="},{"type":"text","text":"Let me look."},{"type":"tool_use",` +
			`"id":"toolu_01A","name":"Read","input":{"file_path":"/a/b.go","limit":1e2}},{"type":"tool_use","id":"toolu_01B",` +
			`"name":"ToolSearch","input":{"query":"x"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_01A","content":"     1\tpackage main\n"},{"type":"tool_result","tool_use_id":"toolu_01B","content":[{"type":"tool_reference","tool_name":"WebFetch"}]},{"type":"text","text":"<system-reminder>todo</system-reminder>","cache_control":{"type":"ephemeral"}}]}],"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.328.abc; cc_entrypoint=cli;"},{"type":"text","text":"You are Claude Code.","cache_control":{"type":"ephemeral"}}],"tools":[{"name":"Read","description":"Reads","input_schema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"file_path":{"type":"string"}},"additionalProperties":false}},{"name":"WebFetch","defer_loading":true,"input_schema":{"type":"object"}},{"name":"DeferredToolPlaceholder","defer_loading":true,"input_schema":{"type":"object"}}],"metadata":{"user_id":"{\"device_id\":\"0123456789012345678901234567890123456789012345678901234567890123\",\"account_uuid\":\"\",\"session_id\":\"a\"}"},"max_tokens":128000,"thinking":{"type":"adaptive","display":"updates"},"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},"output_config":{"effort":"high"},"stream":true}`,
	},
	{
		1,
		`{"model":"qwen3","max_tokens":32000,"messages":[{"role":"system","content":"You are opencode"},{"role":"user",` +
			`"content":[{"type":"text","text":"Hi"}]},{"role":"assistant","content":"","reasoning_content":"Hm\n",` +
			`"tool_calls":[{"id":"call_1","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls ` +
			`\\\"x\\\" \\ud83d\\ude00 \\ud800\"}"}}]},{"role":"tool","tool_call_id":"call_1","content":"a\nb"}],` +
			`"tools":[{"type":"function","function":{"name":"bash","description":"Runs",` +
			`"parameters":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"command":{"type":"string"}},"required":["command"]}}}],"tool_choice":"auto","stream":true,"stream_options":{"include_usage":true}}`,
	},
	{
		2,
		`{"model":"gpt-6.1-sol","stream":true,"input":[{"type":"additional_tools","id":"at_1","role":"developer",` +
			`"tools":[{"type":"namespace","name":"shell","description":"d","tools":[{"type":"custom","name":"exec",` +
			`"description":"Runs a program","format":{"type":"grammar","syntax":"lark","definition":"start: /.+/"}}]}]},` +
			`{"type":"message","id":"msg_1","role":"developer","content":[{"type":"input_text","text":"You are Codex"}]},` +
			`{"type":"message","role":"user","content":[{"type":"input_text",` +
			`"text":"<environment_context></environment_context>"}]},{"type":"message","role":"user","content":[{"type":"input_text","text":"Fix it"}]},{"type":"reasoning","summary":[],"content":null,"encrypted_content":"gAAAAABo"},{"type":"custom_tool_call","call_id":"call_1","namespace":"shell","name":"exec","input":"const x = \"1\"\n"},{"type":"custom_tool_call_output","call_id":"call_1","output":[{"type":"input_text","text":"{\"chunk_id\":\"1\",\"output\":\"ok\"}"}]}],"tool_choice":"auto","parallel_tool_calls":true,"reasoning":{"effort":"medium","summary":"auto"},"store":false,"include":["reasoning.encrypted_content"],"prompt_cache_key":"0199","text":{"verbosity":"low"},"client_metadata":{"b":"1","a":"2"}}`,
	},
	{
		2,
		`{"model":"gpt-5-codex","instructions":"You are Codex","input":[{"type":"message","role":"user",` +
			`"content":[{"type":"input_text","text":"Fix it"}]},{"type":"function_call","id":"fc_1","call_id":"call_1",` +
			`"name":"shell","arguments":"{\"command\":[\"ls\"]}"},{"type":"function_call_output","call_id":"call_1",` +
			`"output":"Chunk ID: 1\nok"}],"tools":[{"type":"function","name":"shell","description":"Runs","strict":false,` +
			`"parameters":{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"}}}}},` +
			`{"type":"web_search","external_web_access":false}],"tool_choice":"auto","parallel_tool_calls":false,"reasoning":{"effort":"high"},"store":false,"stream":true,"include":["reasoning.encrypted_content"]}`,
	},
	{
		3,
		`{"contents":[{"role":"user","parts":[{"text":"Context"}]},{"role":"model","parts":[{"text":"Hm","thought":true},` +
			`{"functionCall":{"name":"run_shell_command","args":{"command":"ls"}},"thoughtSignature":"CiQB"},` +
			`{"functionCall":{"name":"read_file","args":{"path":"a"}}}]},{"role":"user",` +
			`"parts":[{"functionResponse":{"id":"x1","name":"read_file","response":{"output":"a"}}},` +
			`{"functionResponse":{"name":"run_shell_command","response":{"stdout":"b","code":0}}}]}],` +
			`"systemInstruction":{"role":"user","parts":[{"text":"You are Gemini CLI"}]},"tools":[{"functionDeclarations":[{"name":"run_shell_command","description":"Runs","parametersJsonSchema":{"type":"object","properties":{"command":{"type":"string"}}}},{"name":"read_file","parameters":{"type":"OBJECT","nullable":true,"properties":{"path":{"type":"STRING","nullable":true,"minLength":"1"},"type":{"type":"STRING","enum":["STRING"]}}}}]}],"generationConfig":{"temperature":1,"topP":0.95,"topK":64,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":8192}}}`,
	},
	{
		4,
		`{"model":"gemini-3.1-pro","input":[{"type":"user_input","content":[{"type":"text","text":"Fix it"},` +
			`{"type":"image","data":"AA==","mime_type":"image/png"}]},{"type":"thought","signature":"CiQB",` +
			`"summary":[{"type":"text","text":"Hm"}]},{"type":"function_call","id":"fc1","name":"read_file",` +
			`"arguments":{"path":"a","n":1.50}},{"type":"function_result","call_id":"fc1","name":"read_file",` +
			`"result":[{"type":"text","text":"one"},{"type":"text","text":"two"}]},{"type":"google_search_call","id":"s",` +
			`"arguments":{"queries":["q"]}},{"type":"model_output","content":[{"type":"text","text":"Done."}]},{"type":"user_input","content":"More"}],"system_instruction":"Be kind","tools":[{"type":"function","name":"read_file","description":"Reads","parameters":{"type":"object","properties":{"path":{"type":"string"}}}},{"type":"google_search"}],"generation_config":{"thinking_level":"low","thinking_summaries":"auto","max_output_tokens":100,"stop_sequences":["a\\nb"],"tool_choice":{"allowed_tools":{"mode":"validated","tools":["read_file"]}}},"response_format":{"type":"text"},"store":false,"stream":true,"labels":{"a":"b"}}`,
	},
}
