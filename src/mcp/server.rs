//! **What this room is for:** the tools as an MCP server. **Who may enter:** [`super::serve`]. **Never done here:**
//! judging; every call goes down the supervisor's one road. **Where the proof is:** the tests below and `tests/cli.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult, ErrorCode,
    ErrorData, Implementation, JsonObject, ListToolsResult, MetaObject, PaginatedRequestParams, ServerCapabilities,
    ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::access::RiskClass;
use crate::call::{Code, RawArgs, Refusal, ToolCall, ToolResult};
use crate::supervisor::{Offer, Supervisor};

/// Calls that may run or wait at once; each holds its arguments in memory.
const CALLS_AT_ONCE: usize = 1024;
/// How long calls may go on after the client closed its end. Answers of quick ones are still wanted by scripts.
const AFTER_END: Duration = Duration::from_secs(2);
const RESULT_KEY: &str = "stockade/result";

/// The server of one client.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) supervisor: Arc<Supervisor>,
    pub(super) structured: bool,
    pub(super) ended: watch::Receiver<bool>,
    pub(super) running: Arc<AtomicUsize>,
}

/// Counts one call down again, however it ends.
struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("stockade", env!("CARGO_PKG_VERSION")))
            .with_instructions("Every tool runs confined. A refusal says which rule said no and what to do instead.")
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut offers: Vec<Offer> = self.supervisor.offered().into_iter().filter(|offer| offer.available).collect();
        offers.sort_by_key(|offer| offer.spec.name);
        Ok(ListToolsResult::with_all_items(offers.into_iter().map(|offer| self.tool(offer)).collect()))
    }

    /// What `rmcp` does not know, and known methods whose parameters do not fit.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if matches!(request.method.as_str(), "initialize" | "ping" | "tools/list" | "tools/call") {
            return Err(ErrorData::invalid_params("the parameters do not fit the method", None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "there is no such method", None))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = request.name.into_owned();
        let running = Running(Arc::clone(&self.running));
        if self.running.fetch_add(1, Ordering::Relaxed) >= CALLS_AT_ONCE {
            let refusal = Refusal::new(Code::LimitReached, format!("{CALLS_AT_ONCE} calls are running already"))
                .hint("wait for the answers of some of them");
            return Ok(self.answer(super::unread("call-over-limit", None, refusal)).into());
        }
        let call = ToolCall { tool, args: RawArgs::Object(request.arguments.unwrap_or_default()), id: None };
        let supervisor = Arc::clone(&self.supervisor);
        // A task of its own: a fault in one call is an answer here, and dropping the set ends the call and its worker.
        let mut task = JoinSet::new();
        task.spawn(async move {
            let _running = running;
            supervisor.call(call).await
        });
        tokio::select! {
            Some(done) = task.join_next() => match done {
                Ok(result) => Ok(self.answer(result).into()),
                Err(_) => Err(ErrorData::internal_error("the call failed inside stockade", None)),
            },
            () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
            () = gone(self.ended.clone()) => Err(ErrorData::internal_error("the client is gone", None)),
        }
    }
}

/// Some time after the end of input.
async fn gone(mut ended: watch::Receiver<bool>) {
    if ended.wait_for(|ended| *ended).await.is_ok() {
        tokio::time::sleep(AFTER_END).await;
    } else {
        std::future::pending::<()>().await;
    }
}

impl Server {
    fn tool(&self, offer: Offer) -> Tool {
        let schema = match offer.schema {
            Value::Object(schema) => schema,
            // Cannot be: schemas are objects. Closed, if it ever is.
            _ => closed(),
        };
        let tool = Tool::new(offer.spec.name, offer.spec.summary, schema).annotate(annotations(offer.spec.class));
        if self.structured { tool.with_raw_output_schema(Arc::new(result_schema())) } else { tool }
    }

    fn answer(&self, result: ToolResult) -> CallToolResult {
        let mut content = Vec::with_capacity(2);
        if !result.outcome.text.is_empty() || result.outcome.details.get("image").is_none() {
            content.push(ContentBlock::text(result.outcome.text.clone()));
        }
        if let Some(image) = result.outcome.details.get("image")
            && let (Some(data), Some(mime)) =
                (image.get("base64").and_then(Value::as_str), image.get("mime").and_then(Value::as_str))
        {
            content.push(ContentBlock::image(data, mime));
        }
        let ok = result.outcome.ok;
        // A result of ours always serialises.
        let object = serde_json::to_value(&result).unwrap_or_default();
        let mut answer = if ok { CallToolResult::success(content) } else { CallToolResult::error(content) };
        if self.structured {
            answer.structured_content = Some(object.clone());
        }
        let mut meta = MetaObject::new();
        meta.0.insert(RESULT_KEY.to_owned(), object);
        answer.meta = Some(meta);
        answer
    }
}

fn closed() -> JsonObject {
    object(json!({ "type": "object", "properties": {}, "additionalProperties": false }))
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}

/// The result object of the contract.
fn result_schema() -> JsonObject {
    let nullable = |kind: &str| json!({ "type": [kind, "null"] });
    object(json!({
        "type": "object",
        "properties": {
            "call_id": { "type": "string" },
            "tool": nullable("string"),
            "ok": { "type": "boolean" },
            "text": { "type": "string" },
            "refusal": nullable("object"),
            "details": { "type": "object" },
            "truncated": nullable("object"),
            "enforcement": { "type": "object" },
        },
        "required": ["call_id", "tool", "ok", "text", "refusal", "details", "truncated", "enforcement"],
    }))
}

/// What a client may tell its user before the call. Hints only: the policy decides.
fn annotations(class: RiskClass) -> ToolAnnotations {
    let (read_only, destructive, idempotent, open_world) = match class {
        RiskClass::ReadOnlyLocal => (true, false, true, false),
        RiskClass::ReadOnlyNetwork => (true, false, true, true),
        RiskClass::SessionState => (false, false, false, false),
        RiskClass::WorkspaceWrite | RiskClass::SharedStateMutation | RiskClass::DestructiveLocal => {
            (false, true, false, false)
        }
        RiskClass::ExternalSideEffect
        | RiskClass::CredentialAccess
        | RiskClass::SpendMoney
        | RiskClass::SandboxEscape => (false, true, false, true),
    };
    ToolAnnotations::new().read_only(read_only).destructive(destructive).idempotent(idempotent).open_world(open_world)
}
