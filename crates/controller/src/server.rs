//! `/metrics`, `/healthz` and `/readyz`. It answers questions; it never touches the cluster.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::{Metrics, Readiness};

/// Serves until `shutdown` ends.
pub async fn serve(
    listener: TcpListener,
    metrics: Arc<Metrics>,
    readiness: Readiness,
    shutdown: impl Future<Output = ()>,
) {
    let mut shutdown = std::pin::pin!(shutdown);
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            () = &mut shutdown => return,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        let (metrics, readiness) = (Arc::clone(&metrics), readiness.clone());
        connections.spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let response = answer(request.method(), request.uri().path(), &metrics, &readiness);
                async move { Ok::<_, Infallible>(response) }
            });
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }
}

fn answer(method: &Method, path: &str, metrics: &Metrics, readiness: &Readiness) -> Response<Full<Bytes>> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered here\n".to_owned());
    }
    match path {
        "/healthz" => text(StatusCode::OK, "ok\n".to_owned()),
        "/readyz" if readiness.is_ready() => text(StatusCode::OK, "ok\n".to_owned()),
        "/readyz" => text(StatusCode::SERVICE_UNAVAILABLE, "not every watch has synced yet\n".to_owned()),
        "/metrics" => match metrics.render() {
            Ok(rendered) => text(StatusCode::OK, rendered),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        },
        _ => text(StatusCode::NOT_FOUND, "try /metrics, /healthz or /readyz\n".to_owned()),
    }
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    let plain = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

#[cfg(test)]
mod tests {
    use http::{Method, StatusCode};

    use super::answer;
    use crate::readiness::Watched;
    use crate::{Metrics, Readiness};

    #[test]
    fn each_path_answers_its_own_question() {
        let metrics = Metrics::new().unwrap();
        let readiness = Readiness::default();
        let status = |method: &Method, path: &str| answer(method, path, &metrics, &readiness).status();
        assert_eq!(status(&Method::GET, "/healthz"), StatusCode::OK);
        assert_eq!(status(&Method::GET, "/metrics"), StatusCode::OK);
        assert_eq!(status(&Method::GET, "/readyz"), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(status(&Method::GET, "/other"), StatusCode::NOT_FOUND);
        assert_eq!(status(&Method::POST, "/metrics"), StatusCode::METHOD_NOT_ALLOWED);
        for what in [Watched::Deployments, Watched::Sets, Watched::Pods, Watched::Nodes] {
            readiness.synced(what);
        }
        assert_eq!(status(&Method::GET, "/readyz"), StatusCode::OK);
    }
}
