//! Spatial reference systems: those that Esker knows of the EPSG's.
//!
//! Neighbours: `func::spatial` asks which axis comes first; information_schema.ST_SPATIAL_REFERENCE_SYSTEMS shows
//! them. **Invariant**: sorted by SRID.

/// A spatial reference system.
#[derive(Debug)]
pub struct Srs {
    /// Its number.
    pub srid: u32,
    /// Its name.
    pub name: &'static str,
    /// Its definition in WKT; empty of the plane.
    pub definition: &'static str,
    /// Degrees on an ellipsoid, latitude first.
    pub geographic: bool,
}

/// What is known.
pub const KNOWN: &[Srs] = &[
    Srs {
        srid: 0,
        name: "",
        definition: "",
        geographic: false,
    },
    Srs {
        srid: 3857,
        name: "WGS 84 / Pseudo-Mercator",
        definition: concat!(
            r#"PROJCS["WGS 84 / Pseudo-Mercator",GEOGCS["WGS 84",DATUM["World Geodetic System 1984","#,
            r#"SPHEROID["WGS 84",6378137,298.257223563,AUTHORITY["EPSG","7030"]],AUTHORITY["EPSG","6326"]],"#,
            r#"PRIMEM["Greenwich",0,AUTHORITY["EPSG","8901"]],"#,
            r#"UNIT["degree",0.017453292519943278,AUTHORITY["EPSG","9122"]],"#,
            r#"AXIS["Lat",NORTH],AXIS["Lon",EAST],AUTHORITY["EPSG","4326"]],"#,
            r#"PROJECTION["Popular Visualisation Pseudo Mercator",AUTHORITY["EPSG","1024"]],"#,
            r#"PARAMETER["Latitude of natural origin",0,AUTHORITY["EPSG","8801"]],"#,
            r#"PARAMETER["Longitude of natural origin",0,AUTHORITY["EPSG","8802"]],"#,
            r#"PARAMETER["False easting",0,AUTHORITY["EPSG","8806"]],"#,
            r#"PARAMETER["False northing",0,AUTHORITY["EPSG","8807"]],"#,
            r#"UNIT["metre",1,AUTHORITY["EPSG","9001"]],AXIS["X",EAST],AXIS["Y",NORTH],"#,
            r#"AUTHORITY["EPSG","3857"]]"#
        ),
        geographic: false,
    },
    Srs {
        srid: 4326,
        name: "WGS 84",
        definition: concat!(
            r#"GEOGCS["WGS 84",DATUM["World Geodetic System 1984","#,
            r#"SPHEROID["WGS 84",6378137,298.257223563,AUTHORITY["EPSG","7030"]],AUTHORITY["EPSG","6326"]],"#,
            r#"PRIMEM["Greenwich",0,AUTHORITY["EPSG","8901"]],"#,
            r#"UNIT["degree",0.017453292519943278,AUTHORITY["EPSG","9122"]],"#,
            r#"AXIS["Lat",NORTH],AXIS["Lon",EAST],AUTHORITY["EPSG","4326"]]"#
        ),
        geographic: true,
    },
];

/// The system of a number.
pub fn find(srid: u32) -> Option<&'static Srs> {
    KNOWN.iter().find(|srs| srs.srid == srid)
}

/// Is it one in which the latitude comes first?
pub fn is_geographic(srid: u32) -> bool {
    find(srid).is_some_and(|srs| srs.geographic)
}
